"""The Chat Completions wire: parsing, rules, chunks and routes of the OpenAI API."""
