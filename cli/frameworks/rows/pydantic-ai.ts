import { TEXT_INPUT } from '../chat-input.ts';
import { preferNames, pythonEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { pythonProgram } from '../python-program.ts';

const CODE = `async def follow(_, events):
    async for event in events:
        # The first piece of a text comes with the part, the others as deltas.
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        if getattr(part, "part_kind", getattr(part, "part_delta_kind", "")) == "text" and event.event_kind != "part_end":
            show(getattr(part, "content_delta", None) or getattr(part, "content", ""))


async def run():
    answer = await entry.run(given["input"], event_stream_handler=follow)
    return {"output": answer.output}


result = asyncio.run(run())
`;

export const pydanticAi: Framework = {
  name: 'pydantic-ai',
  title: 'Pydantic AI',
  language: 'python',
  packages: ['pydantic-ai', 'pydantic-ai-slim'],
  modules: ['pydantic_ai'],
  example: 'it must be a variable at the top of a module, such as `agent = Agent(...)`.',
  entriesIn: (project) => preferNames(pythonEntries(project, /=\s*Agent(?:\[[^\]]*\])?\(/, /\bpydantic_ai\b/), 'agent'),
  adapt: (project, entry) =>
    pythonProgram(project, entry, { ...TEXT_INPUT, title: 'Pydantic AI', imports: ['asyncio'], code: CODE }),
};
