import { PYTHON_TYPING, pythonTypes } from './python-types.ts';
import { identifierOf, type NamedType, typesOf } from './schema-type.ts';
import { inTypeScript, typeScriptTypes } from './typescript-types.ts';

export const LANGUAGES = ['typescript', 'python'] as const;
export type TypesLanguage = (typeof LANGUAGES)[number];

/** Begins every file that `platform types` writes, so that it replaces no other. */
export const MARK = 'Written by `platform types`: run it again instead of editing this.';

export interface TypedAgent {
  /** `org/agent` or `org/agent@v2`: how the program names the agent in its calls. */
  readonly names: readonly string[];
  /** `org/agent@v2` */
  readonly version: string;
  readonly input: unknown;
  readonly output: unknown;
}

/** Types of an agent's input and output: its own first, then those that they use. */
export interface Declared {
  readonly types: readonly NamedType[];
  readonly input: string;
  readonly output: string;
  /** Names of the same file. */
  readonly taken: Set<string>;
}

export function declaredTypes(agent: Omit<TypedAgent, 'names'>): Declared {
  const name = identifierOf(agent.version.split('/')[1]!.split('@')[0]!);
  const base = /^[A-Z]/.test(name) ? name : `Agent${name}`;
  const taken = new Set<string>();
  const input = typesOf(agent.input, `${base}Input`, taken);
  const output = typesOf(agent.output, `${base}Output`, taken);
  return { types: [...input, ...output], input: input[0]!.name, output: output[0]!.name, taken };
}

/** The source of a file with the types of an agent. No text of a schema can become code. */
export function agentTypes(agent: TypedAgent, language: TypesLanguage): string {
  const { types, input, output, taken } = declaredTypes(agent);
  if (language === 'python') {
    return `# Types of ${agent.version}. ${MARK}\n${PYTHON_TYPING}\n\n${pythonTypes(types, taken)}`;
  }
  const agents = agent.names.map((name) => `    ${inTypeScript(name)}: { input: ${input}; output: ${output} };\n`);
  return `// Types of ${agent.version}. ${MARK}
import type {} from 'agent-platform-sdk/agents';

${typeScriptTypes(types, input)}
declare module 'agent-platform-sdk/agents' {
  interface Agents {
${agents.join('')}  }
}
`;
}
