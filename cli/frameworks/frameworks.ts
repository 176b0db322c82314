import type { Framework } from './framework.ts';
import { adk } from './rows/adk.ts';
import { aiSdk } from './rows/ai-sdk.ts';
import { apify } from './rows/apify.ts';
import { apifyJs } from './rows/apify-js.ts';
import { crewai } from './rows/crewai.ts';
import { django } from './rows/django.ts';
import { express } from './rows/express.ts';
import { fastapi } from './rows/fastapi.ts';
import { flask } from './rows/flask.ts';
import { gradio } from './rows/gradio.ts';
import { hono } from './rows/hono.ts';
import { langgraph } from './rows/langgraph.ts';
import { langgraphJs } from './rows/langgraph-js.ts';
import { mastra } from './rows/mastra.ts';
import { nextjs } from './rows/nextjs.ts';
import { openaiAgents } from './rows/openai-agents.ts';
import { openaiAgentsJs } from './rows/openai-agents-js.ts';
import { pydanticAi } from './rows/pydantic-ai.ts';
import { streamlit } from './rows/streamlit.ts';

/** The frameworks that `platform init --from` finds. */
export const FRAMEWORKS: readonly Framework[] = [
  langgraph,
  langgraphJs,
  crewai,
  openaiAgents,
  openaiAgentsJs,
  aiSdk,
  mastra,
  adk,
  pydanticAi,
  apify,
  apifyJs,
  fastapi,
  flask,
  django,
  streamlit,
  gradio,
  express,
  hono,
  nextjs,
];
