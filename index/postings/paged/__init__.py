"""Record keys have postings in small pages, of which a look-up decodes only those that its keys fall into."""
