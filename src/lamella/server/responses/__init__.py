"""The door for clients of OpenAI's Responses API."""
