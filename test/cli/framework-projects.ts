/** A small project of a framework, as its quickstart writes it. */
export interface FrameworkProject {
  readonly files: Readonly<Record<string, string>>;
  /** Entry that `platform init --from` finds. */
  readonly entry: string;
  /** Command that it writes. */
  readonly command: string;
}

const HELLO = 'python3 platform_main.py';
const NODE = 'node platform-main.mjs';
const TYPESCRIPT = 'node platform-main.mts';
const packageJson = (dependencies: Readonly<Record<string, string>>, more: object = {}): string =>
  JSON.stringify({ name: 'app', type: 'module', dependencies, ...more }, null, 2);

/** By the name of the framework. The versions are those that the adapters were written for. */
export const PROJECTS: Readonly<Record<string, FrameworkProject>> = {
  langgraph: {
    entry: 'graph.py:graph',
    command: HELLO,
    files: {
      'requirements.txt': 'langgraph==1.2.24\n',
      'graph.py': `from typing import TypedDict

from langgraph.graph import END, START, StateGraph


class Ticket(TypedDict):
    text: str
    kind: str


def classify(ticket: Ticket):
    print("classifies")
    return {"kind": "refund" if "money back" in ticket["text"] else "question"}


builder = StateGraph(Ticket)
builder.add_node("classify", classify)
builder.add_edge(START, "classify")
builder.add_edge("classify", END)
graph = builder.compile()
`,
    },
  },
  'langgraph-js': {
    entry: 'src/graph.ts:graph',
    command: TYPESCRIPT,
    files: {
      'package.json': packageJson({ '@langchain/langgraph': '1.7.3', '@langchain/core': '1.4.0', zod: '4.6.7' }),
      'langgraph.json': JSON.stringify({ node_version: '22', graphs: { agent: './src/graph.ts:graph' } }),
      'src/graph.ts': `import { AIMessage } from '@langchain/core/messages';
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';

const answer = async (state: typeof MessagesAnnotation.State) => ({
  messages: [new AIMessage(\`You said: \${state.messages.at(-1)?.content}\`)],
});

export const graph = new StateGraph(MessagesAnnotation).addNode('answer', answer).addEdge(START, 'answer').compile();
`,
    },
  },
  crewai: {
    entry: 'src/research/crew.py:Research',
    command: HELLO,
    files: {
      'pyproject.toml': `[project]
name = "research"
version = "0.1.0"
requires-python = ">=3.10"
dependencies = ["crewai==1.15.30"]
`,
      'src/research/__init__.py': '',
      'src/research/config/agents.yaml': `researcher:
  role: "{topic} researcher"
  goal: "Find out about {topic}"
  backstory: "You know all about {topic}."
`,
      'src/research/config/tasks.yaml': `research_task:
  description: "Say something about {topic}."
  expected_output: "A sentence"
  agent: researcher
`,
      'src/research/crew.py': `from crewai import Agent, Crew, Process, Task
from crewai.project import CrewBase, agent, crew, task


@CrewBase
class Research:
    agents_config = "config/agents.yaml"
    tasks_config = "config/tasks.yaml"

    @agent
    def researcher(self) -> Agent:
        return Agent(config=self.agents_config["researcher"], llm="openai/gpt-4.1-mini")

    @task
    def research_task(self) -> Task:
        return Task(config=self.tasks_config["research_task"])

    @crew
    def crew(self) -> Crew:
        return Crew(agents=self.agents, tasks=self.tasks, process=Process.sequential)
`,
      'src/research/main.py': `from research.crew import Research


def run():
    Research().crew().kickoff(inputs={"topic": "bees"})
`,
    },
  },
  'openai-agents': {
    entry: 'main.py:agent',
    command: HELLO,
    files: {
      'requirements.txt': 'openai-agents==0.24.0\n',
      'main.py': `from agents import Agent, Runner, function_tool


@function_tool
def weather(city: str) -> str:
    """Returns the weather of a city."""
    return f"It is sunny in {city}."


agent = Agent(name="Assistant", instructions="You are a helpful assistant.", tools=[weather], model="gpt-4.1-mini")

if __name__ == "__main__":
    print(Runner.run_sync(agent, "Write a haiku about recursion in programming.").final_output)
`,
    },
  },
  'openai-agents-js': {
    entry: 'agent.ts:agent',
    command: TYPESCRIPT,
    files: {
      'package.json': packageJson({ '@openai/agents': '0.20.0', zod: '4.6.7' }),
      'agent.ts': `import { Agent, tool } from '@openai/agents';
import { z } from 'zod';

const weather = tool({
  name: 'weather',
  description: 'Returns the weather of a city.',
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }: { city: string }) => \`It is sunny in \${city}.\`,
});

export const agent = new Agent({ name: 'Assistant', instructions: 'You are helpful.', tools: [weather], model: 'gpt-4.1-mini' });
`,
    },
  },
  'ai-sdk': {
    entry: 'index.ts:answer',
    command: TYPESCRIPT,
    files: {
      'package.json': packageJson({ ai: '7.0.173', '@ai-sdk/openai': '4.0.118' }),
      'index.ts': `import { openai } from '@ai-sdk/openai';
import { streamText } from 'ai';

export const answer = (input: string) => streamText({ model: openai('gpt-4.1-mini'), prompt: input });
`,
    },
  },
  mastra: {
    entry: 'src/mastra/index.ts:mastra',
    command: TYPESCRIPT,
    files: {
      'package.json': packageJson(
        { '@mastra/core': '1.71.0', '@ai-sdk/openai': '4.0.118', zod: '4.6.7' },
        { scripts: { dev: 'mastra dev', build: 'mastra build' }, devDependencies: { mastra: '^1.0.0' } },
      ),
      'src/mastra/agents/helper.ts': `import { openai } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';

export const helper = new Agent({ id: 'helper', name: 'helper', instructions: 'You are helpful.', model: openai('gpt-4.1-mini') });
`,
      'src/mastra/index.ts': `import { Mastra } from '@mastra/core';
import { helper } from './agents/helper';

export const mastra = new Mastra({ agents: { helper } });
`,
    },
  },
  adk: {
    entry: 'greeter/agent.py:root_agent',
    command: HELLO,
    files: {
      'requirements.txt': 'google-adk==2.13.0\n',
      'greeter/__init__.py': 'from . import agent\n',
      'greeter/agent.py': `from google.adk.agents import Agent


def weather(city: str) -> dict:
    """Returns the weather of a city."""
    return {"status": "success", "report": f"It is sunny in {city}."}


root_agent = Agent(
    name="greeter",
    model="gemini-2.5-flash",
    instruction="Answer in one sentence.",
    tools=[weather],
)
`,
    },
  },
  'pydantic-ai': {
    entry: 'hello.py:agent',
    command: HELLO,
    files: {
      'requirements.txt': 'pydantic-ai-slim[openai]==2.68.0\n',
      'hello.py': `from pydantic_ai import Agent

agent = Agent("openai-chat:gpt-4.1-mini", instructions="Be concise, reply with one sentence.")

if __name__ == "__main__":
    print(agent.run_sync('Where does "hello world" come from?').output)
`,
    },
  },
  apify: {
    entry: 'src/__main__.py',
    command: HELLO,
    files: {
      '.actor/actor.json': JSON.stringify({
        actorSpecification: 1,
        name: 'words',
        version: '0.0',
        input: './input_schema.json',
      }),
      '.actor/input_schema.json': JSON.stringify({
        title: 'Words',
        type: 'object',
        schemaVersion: 1,
        properties: {
          text: { title: 'Text', type: 'string', editor: 'textfield', prefill: 'one two', default: 'hello' },
        },
        required: ['text'],
      }),
      'requirements.txt': 'apify==4.1.0\n',
      'src/__init__.py': '',
      'src/__main__.py': 'import asyncio\n\nfrom .main import main\n\nasyncio.run(main())\n',
      'src/main.py': `from apify import Actor


async def main():
    async with Actor:
        actor_input = await Actor.get_input() or {}
        for word in actor_input["text"].split():
            await Actor.push_data({"word": word, "length": len(word)})
        await Actor.set_value("OUTPUT", {"words": len(actor_input["text"].split())})
`,
    },
  },
  'apify-js': {
    entry: 'package.json',
    command: NODE,
    files: {
      'package.json': packageJson({ apify: '3.7.2' }, { scripts: { start: 'node src/main.js' } }),
      'src/main.js': `import { Actor } from 'apify';

await Actor.init();
const { text } = await Actor.getInput();
for (const word of text.split(' ')) await Actor.pushData({ word, length: word.length });
await Actor.setValue('OUTPUT', { words: text.split(' ').length });
await Actor.exit();
`,
      '.actor/input_schema.json': JSON.stringify({
        title: 'Words',
        type: 'object',
        schemaVersion: 1,
        properties: { text: { title: 'Text', type: 'string', editor: 'textfield', prefill: 'one two' } },
        required: ['text'],
      }),
    },
  },
  fastapi: {
    entry: 'app/main.py:app',
    command: 'python3 -m uvicorn app.main:app --host 0.0.0.0 --port $PORT',
    files: {
      'requirements.txt': 'fastapi==0.165.0\nuvicorn==0.54.0\n',
      'app/__init__.py': '',
      'app/main.py': `from fastapi import FastAPI

app = FastAPI()


@app.get("/")
def read_root():
    return {"Hello": "World"}
`,
    },
  },
  flask: {
    entry: 'hello.py:app',
    command: "python3 -m gunicorn --bind 0.0.0.0:$PORT 'hello:app'",
    files: {
      'requirements.txt': 'flask==3.1.3\ngunicorn==27.0.1\n',
      'hello.py': `from flask import Flask

app = Flask(__name__)


@app.route("/")
def hello_world():
    return "<p>Hello, World!</p>"
`,
    },
  },
  django: {
    entry: 'manage.py',
    command: 'python3 manage.py migrate --noinput && exec python3 manage.py runserver --noreload 0.0.0.0:$PORT',
    files: {
      'requirements.txt': 'django>=5.2,<6\n',
      'manage.py': `import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
`,
      'mysite/__init__.py': '',
      'mysite/settings.py': `from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "django-insecure-of-a-test"
DEBUG = True
ALLOWED_HOSTS = []
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth"]
ROOT_URLCONF = "mysite.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
`,
      'mysite/urls.py': `from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("", lambda request: HttpResponse(f"Hello, {User.objects.count()} users."))]
`,
    },
  },
  streamlit: {
    entry: 'streamlit_app.py',
    command:
      'python3 -m streamlit run streamlit_app.py --server.port $PORT --server.address 0.0.0.0 --server.headless true --browser.gatherUsageStats false',
    files: {
      'requirements.txt': 'streamlit==1.67.0\n',
      'streamlit_app.py': 'import streamlit as st\n\nst.title("Hello")\n',
      'pages/about.py': 'import streamlit as st\n\nst.title("About")\n',
    },
  },
  gradio: {
    entry: 'app.py',
    command: 'GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=$PORT GRADIO_ANALYTICS_ENABLED=False python3 app.py',
    files: {
      'requirements.txt': 'gradio==6.31.0\n',
      'app.py': `import gradio as gr


def greet(name):
    return f"Hello {name}!"


demo = gr.Interface(fn=greet, inputs="text", outputs="text", title="Greets")
demo.launch()
`,
    },
  },
  express: {
    entry: 'server.js',
    command: 'node server.js',
    files: {
      'package.json': packageJson({ express: '5.3.0' }, { type: 'commonjs', scripts: { start: 'node server.js' } }),
      'server.js': `const express = require('express');

const app = express();
app.get('/', (req, res) => res.send('Hello World!'));
app.listen(process.env.PORT || 8000);
`,
    },
  },
  hono: {
    entry: 'src/index.ts:default',
    command: TYPESCRIPT,
    files: {
      'package.json': packageJson({ hono: '4.13.19' }),
      'src/index.ts': `import { Hono } from 'hono';

const app = new Hono();
app.get('/', (c) => c.text('Hello Hono!'));
app.post('/echo', async (c) => c.json(await c.req.json()));

export default app;
`,
    },
  },
  nextjs: {
    entry: 'package.json',
    command: 'next start --hostname 0.0.0.0 --port $PORT',
    files: {
      'package.json': packageJson(
        { next: '16.4.6', react: '19.3.1', 'react-dom': '19.3.1' },
        { scripts: { dev: 'next dev', build: 'next build', start: 'next start' } },
      ),
      'app/layout.jsx': 'export default ({ children }) => <html lang="en"><body>{children}</body></html>;\n',
      'app/page.jsx': 'export default function Page() {\n  return <h1>Hello, Next.js!</h1>;\n}\n',
      'next.config.mjs': 'export default {};\n',
    },
  },
};
