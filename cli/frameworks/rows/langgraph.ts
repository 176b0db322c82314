import { preferNames, pythonEntries } from '../entries.ts';
import type { Entry, Framework, Project } from '../framework.ts';
import { declaredGraphs, declaredRequirements, inputOf } from '../langgraph-state.ts';
import { pythonProgram } from '../python-program.ts';

const CODE = `if hasattr(entry, "compile"):
    entry = entry.compile()


async def run():
    # A checkpointer needs a thread; each run is one of its own, unless the input says otherwise.
    thread = os.environ.get("PLATFORM_REQUEST_ID", "run")
    options = {"config": {"configurable": {"thread_id": thread}}, "stream_mode": ["values", "messages"]}
    # As in LangGraph's own server, a graph with a context gets one of its defaults.
    if getattr(entry, "context_schema", None) is not None:
        options["context"] = {}
    state = None
    async for mode, part in entry.astream(given, **options):
        if mode == "values":
            state = part
        elif "AIMessage" in type(part[0]).__name__ and isinstance(part[0].content, str):
            show(part[0].content)
    return state


result = asyncio.run(run())
`;

export const langgraph: Framework = {
  name: 'langgraph',
  title: 'LangGraph',
  language: 'python',
  packages: ['langgraph', 'langchain'],
  modules: ['langgraph', 'langchain.agents'],
  example: 'it must be a variable at the top of a module, such as `graph = builder.compile()`.',
  entriesIn(project: Project): readonly Entry[] {
    const declared = declaredGraphs(project, /\.py$/);
    const made = /\.compile\(|\bcreate_react_agent\(|\bcreate_agent\(/;
    const found = pythonEntries(project, made, /\b(?:langgraph|langchain\.agents)\b/);
    return declared.length > 0 ? declared : preferNames(found, 'graph', 'app', 'agent');
  },
  adapt(project, entry) {
    const adapted = pythonProgram(project, entry, {
      title: 'LangGraph',
      imports: ['asyncio'],
      code: CODE,
      ...inputOf(project, entry),
    });
    const requirements = project.hasPythonRequirements ? [] : declaredRequirements(project);
    if (requirements.length === 0) return adapted;
    const lines = requirements.map((line) => `${line}\n`).join('');
    return { ...adapted, files: { ...adapted.files, 'requirements.txt': lines } };
  },
};
