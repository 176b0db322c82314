import { isCompatible, isLlmProvider } from '#core/ports/llm.ts';
import { suggestion } from '../did-you-mean.ts';
import { fieldName, isObject } from '../field-error.ts';
import { MEMBERS } from './members.ts';
import { isRemote } from './orchestration.ts';

/** Maximum number of warnings per object. */
const MAX_WARNINGS = 20;

const knownIn = (shape: { readonly shape: object }): readonly string[] => Object.keys(shape.shape);

const SECTIONS = {
  runtime: knownIn(MEMBERS.runtime),
  loop: knownIn(MEMBERS.loop),
  environment: knownIn(MEMBERS.environment),
  bundle: knownIn(MEMBERS.bundle),
  model_settings: knownIn(MEMBERS.model_settings),
  // Records show these four members here. Other checks warn about them.
  manifest: [...knownIn(MEMBERS.manifest), 'custom_tools', 'environment', 'runtime', 'loop'],
};
const SETTINGS_OF_PROVIDER = knownIn(MEMBERS.model_settings.shape.anthropic.unwrap().unwrap());
const TOOL = knownIn(MEMBERS.custom_tools.element);
const MCP_SERVER = knownIn(MEMBERS.mcp_servers.element);
/** Records show all but the first two beside them. */
const SKILL_FILE = [...knownIn(MEMBERS.skill_files.element), 'size', 'sha256'];
const DEPENDENCY = ['id', 'version'];
const REMOTE_DEPENDENCY = ['id', 'name', 'headers', 'connection', 'approval'];
const knownInDependency = (element: unknown): readonly string[] =>
  isObject(element) && isRemote(element) ? REMOTE_DEPENDENCY : DEPENDENCY;

/** Returns warnings about unknown members of objects inside a manifest. */
export function unknownMembers(body: Record<string, unknown>): string[] {
  const { loop, manifest, model_settings } = body;
  return [
    ...Object.entries(SECTIONS).flatMap(([name, known]) => unknownIn(body[name], [name], known)),
    ...(isObject(model_settings)
      ? Object.keys(model_settings)
          .filter(isLlmProvider)
          .flatMap((name) => unknownIn(model_settings[name], ['model_settings', name], SETTINGS_OF_PROVIDER))
      : []),
    ...inList(body.custom_tools, ['custom_tools'], TOOL),
    ...(isObject(loop) ? inList(loop.custom_tools, ['loop', 'custom_tools'], TOOL) : []),
    ...inList(body.mcp_servers, ['mcp_servers'], MCP_SERVER),
    ...(isObject(loop) ? inList(loop.mcp_servers, ['loop', 'mcp_servers'], MCP_SERVER) : []),
    ...inList(body.skill_files, ['skill_files'], SKILL_FILE),
    ...(isObject(manifest) ? inList(manifest.dependencies, ['manifest', 'dependencies'], knownInDependency) : []),
  ];
}

function inList(
  list: unknown,
  path: readonly string[],
  known: readonly string[] | ((element: unknown) => readonly string[]),
): string[] {
  if (!Array.isArray(list)) return [];
  const warnings: string[] = [];
  for (const [index, element] of list.slice(0, 50).entries()) {
    warnings.push(...unknownIn(element, [...path, index], typeof known === 'function' ? known(element) : known));
    if (warnings.length >= MAX_WARNINGS) break;
  }
  return warnings.slice(0, MAX_WARNINGS);
}

function unknownIn(object: unknown, path: readonly PropertyKey[], known: readonly string[]): string[] {
  if (!isObject(object)) return [];
  const isKnown = (name: string): boolean =>
    known.includes(name) || (known === SECTIONS.model_settings && isCompatible(name));
  const unknown = Object.keys(object).filter((name) => !isKnown(name) && object[name] != null);
  return unknown.slice(0, MAX_WARNINGS).map((name) => {
    const field = fieldName([...path, name]);
    if (path.length === 1 && Object.hasOwn(MEMBERS, name)) {
      return `${field} has no effect: it belongs beside "${String(path[0])}".`;
    }
    return `${field} has no effect: ${fieldName(path)} has no such member${suggestion(name, known)}`;
  });
}
