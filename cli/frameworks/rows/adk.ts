import { TEXT_INPUT } from '../chat-input.ts';
import { preferNames, preferTop, pythonEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { pythonProgram } from '../python-program.ts';

const CODE = `from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types


async def run():
    runner = InMemoryRunner(agent=entry, app_name="platform")
    session = await runner.session_service.create_session(app_name="platform", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=given["input"])])
    answer = ""
    async for event in runner.run_async(
        user_id="user",
        session_id=session.id,
        new_message=message,
        run_config=RunConfig(streaming_mode=StreamingMode.SSE),
    ):
        parts = (event.content.parts if event.content else None) or []
        text = "".join(part.text or "" for part in parts if not part.thought)
        if event.partial:
            show(text)
        elif event.is_final_response() and text:
            answer = text
    return {"output": answer}


result = asyncio.run(run())
`;

export const adk: Framework = {
  name: 'adk',
  title: 'Agent Development Kit',
  language: 'python',
  packages: ['google-adk'],
  modules: ['google.adk'],
  example: 'it must be the variable `root_agent` of a module, such as `root_agent = Agent(...)` in agent.py.',
  entriesIn(project) {
    const made = /^root_agent\s*=|=\s*(?:Llm|Sequential|Parallel|Loop|Base)?Agent\(/;
    // Agents of deeper folders are those that the root agent calls.
    return preferTop(preferNames(pythonEntries(project, made, /\bgoogle\.adk\b/), 'root_agent'));
  },
  adapt: (project, entry) =>
    pythonProgram(project, entry, {
      ...TEXT_INPUT,
      title: 'Agent Development Kit',
      imports: ['asyncio'],
      code: CODE,
      provider: 'gemini',
    }),
};
