import { preferNames, scriptEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { declaredGraphs, inputOf } from '../langgraph-state.ts';
import { nodeProgram } from '../node-program.ts';

const CODE = `const graph = entry.compile ? entry.compile() : (entry.graph ?? entry);
// A checkpointer needs a thread; each run is one of its own.
const config = { configurable: { thread_id: process.env.PLATFORM_REQUEST_ID ?? 'run' } };
let result;
for await (const [mode, part] of await graph.stream(given, { ...config, streamMode: ['values', 'messages'] })) {
  if (mode === 'values') result = part;
  else if (part[0].getType?.() === 'ai' && typeof part[0].content === 'string') show(part[0].content);
}
`;

export const langgraphJs: Framework = {
  name: 'langgraph-js',
  title: 'LangGraph.js',
  language: 'javascript',
  packages: ['@langchain/langgraph'],
  example: 'a module must export it, such as `export const graph = builder.compile()`.',
  entriesIn(project) {
    const declared = declaredGraphs(project, /\.[cm]?[jt]s$/);
    const made = /\.compile\(|\bcreateReactAgent\(|\bcreateAgent\(/;
    const found = scriptEntries(project, made, /@langchain\/langgraph|["']langchain["']/);
    return declared.length > 0 ? declared : preferNames(found, 'graph', 'app', 'agent');
  },
  adapt: (project, entry) =>
    nodeProgram(project, entry, { title: 'LangGraph.js', code: CODE, ...inputOf(project, entry) }),
};
