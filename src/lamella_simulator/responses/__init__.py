"""The Responses wire: parsing, rules, events and routes of OpenAI's second API."""
