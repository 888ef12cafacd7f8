"""What users import: constrained generation on any Hugging Face model, in one package."""
