import { TEXT_INPUT } from '../chat-input.ts';
import { preferNames, pythonEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { pythonProgram } from '../python-program.ts';

const CODE = `from agents import Runner


async def run():
    answer = Runner.run_streamed(entry, given["input"])
    async for event in answer.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            show(event.data.delta)
    return {"output": answer.final_output}


result = asyncio.run(run())
`;

export const openaiAgents: Framework = {
  name: 'openai-agents',
  title: 'OpenAI Agents',
  language: 'python',
  packages: ['openai-agents'],
  modules: ['agents'],
  example: 'it must be a variable at the top of a module, such as `agent = Agent(...)`.',
  entriesIn: (project) =>
    preferNames(
      pythonEntries(project, /=\s*Agent(?:\[[^\]]*\])?\(/, /^[ \t]{0,20}(?:from|import) agents\b/m),
      'agent',
      'triage_agent',
      'root_agent',
    ),
  adapt: (project, entry) =>
    pythonProgram(project, entry, {
      ...TEXT_INPUT,
      title: 'OpenAI Agents',
      imports: ['asyncio'],
      code: CODE,
      provider: 'openai',
    }),
};
