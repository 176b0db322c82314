"""Serves Gradio's chat in front of the agent that the arguments name, and prints its address."""

import os
import sys

import gradio

chat = gradio.load_chat(os.environ["OPENAI_BASE_URL"], model=sys.argv[1], token=os.environ["OPENAI_API_KEY"])
_, address, _ = chat.launch(server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
print(address, flush=True)
chat.block_thread()
