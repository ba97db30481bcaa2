"""What a condition on columns says about a function of them, and a condition on the function about them."""
