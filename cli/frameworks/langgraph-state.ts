import { UsageError } from '#client/usage-error.ts';
import type { Entry, Project } from './framework.ts';

interface Configuration {
  readonly graphs?: unknown;
  readonly dependencies?: unknown;
}

function configurationOf(project: Project): Configuration {
  const text = project.textOf('langgraph.json');
  if (text === undefined) return {};
  try {
    return JSON.parse(text) ?? {};
  } catch (error) {
    throw new UsageError(`langgraph.json is not valid JSON: ${(error as Error).message}`);
  }
}

/** Returns the packages and folders that `langgraph.json` depends on, as lines of a requirements file. */
export function declaredRequirements(project: Project): string[] {
  const { dependencies } = configurationOf(project);
  return [dependencies ?? []].flat().flatMap((each) => {
    const name = String(each);
    if (!/^[./]/.test(name)) return [name];
    const folder = name.replace(/^\.\//, '').replace(/\/$/, '');
    if (project.has(`${folder}/requirements.txt`)) return [`-r ${folder}/requirements.txt`];
    return project.has(`${folder}/pyproject.toml`) ? [`./${folder}`] : [];
  });
}

/** Returns the graphs that `langgraph.json` declares, in the given language. */
export function declaredGraphs(project: Project, file: RegExp): Entry[] {
  const { graphs } = configurationOf(project);
  return Object.values((graphs ?? {}) as Record<string, unknown>).flatMap((each): Entry[] => {
    const place = typeof each === 'string' ? each : (each as { path?: unknown } | null)?.path;
    const [, path, name] = /^(?:\.\/)?([^:]+):([\w$]+)$/.exec(String(place)) ?? [];
    if (path === undefined || !file.test(path) || !project.has(path)) return [];
    const isFactory = new RegExp(`^(?:async\\s+)?def\\s+${name}\\s*\\(`, 'm').test(project.textOf(path) ?? '');
    return [{ file: path, name: name!, isFactory, declaredIn: 'langgraph.json' }];
  });
}

const MESSAGES = { messages: [{ role: 'user', content: 'Hello' }] };

/** Returns a sample input: messages for graphs that keep a conversation, else the fields of the first typed state. */
export function inputOf(project: Project, { file }: Entry): { readonly input: unknown; readonly inputSchema: unknown } {
  const inputSchema = { type: 'object', description: 'The state that the graph begins with.' };
  const code = project.sources.filter(({ path }) => /\.(?:py|[cm]?[jt]s)$/.test(path));
  const own = [project.textOf(file) ?? '', ...code.map(({ text }) => text)];
  const speaks =
    /\b(?:MessagesState|MessagesAnnotation|MessagesValue|MessagesZod\w*|add_messages|create_react_agent|create_agent|createReactAgent|createAgent)\b/;
  const fields = own.map(fieldsOf).find((each) => each.length > 0);
  if (fields === undefined || own.some((text) => speaks.test(text))) return { input: MESSAGES, inputSchema };
  return { input: Object.fromEntries(fields.map(([name, type]) => [name, sampleOf(type)])), inputSchema };
}

/** Returns names and types of the members of the first typed class of a Python module. */
function fieldsOf(text: string): [name: string, type: string][] {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => /^class \w+\((?:TypedDict|BaseModel)\b/.test(line));
  const body = start < 0 ? [] : lines.slice(start + 1);
  const end = body.findIndex((line) => /^\S/.test(line));
  return body.slice(0, end < 0 ? undefined : end).flatMap((line): [string, string][] => {
    const [, name, type] = /^[ \t]{1,8}(\w+): ?([^=#]+)/.exec(line) ?? [];
    return name === undefined ? [] : [[name, type!]];
  });
}

function sampleOf(type: string): unknown {
  if (/^(?:Annotated\[)?(?:list|List|Sequence|tuple)\b/.test(type)) return [];
  if (/^(?:Annotated\[)?(?:dict|Dict)\b/.test(type)) return {};
  if (/\bbool\b/.test(type)) return false;
  if (/\b(?:int|float)\b/.test(type)) return 1;
  return /\bstr\b/.test(type) ? 'Hello' : null;
}
