"""Models behind a server: OpenAI's form and Gemini.

`endpoint` is an address and what of it may be shown, `client` asks it, bounded and retried, `forms` holds answers to a
schema. `openai` and `gemini` are the back ends; `scoring` and `protocols` get the log-probabilities of a prompt.
"""
