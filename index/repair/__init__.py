"""What is found wrong in an index is dropped in one commit, and nothing else; then it is built again."""
