import { identifierOf, type Member, type NamedType, type Type, take, typesOf } from './schema-type.ts';

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

/** The source of a file with the types of an agent. No text of a schema can become code. */
export function agentTypes(agent: TypedAgent, language: TypesLanguage): string {
  const name = identifierOf(agent.version.split('/')[1]!.split('@')[0]!);
  const base = /^[A-Z]/.test(name) ? name : `Agent${name}`;
  const taken = new Set<string>();
  const input = typesOf(agent.input, `${base}Input`, taken);
  const output = typesOf(agent.output, `${base}Output`, taken);
  if (language === 'python') return python(agent, [...input, ...output], taken);
  return typeScript(agent, [...input, ...output], input[0]!.name, output[0]!.name);
}

/** One line of visible text, for a comment. */
function lineOf(text: string): string {
  const visible = text.toWellFormed().replaceAll(/[\p{C}\p{Z}]+/gu, ' ');
  return visible.trim().slice(0, 1000).toWellFormed();
}

/** A string literal of one line. `escapeOf` gives the escape of a code point that is not visible. */
function quoted(text: string, escapeOf: (codePoint: number) => string): string {
  const safe = Array.from(text, (character) =>
    /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character) && !'"\\'.includes(character)
      ? character
      : escapeOf(character.codePointAt(0)!),
  );
  return `"${safe.join('')}"`;
}

const hex = (codePoint: number, digits: number): string => codePoint.toString(16).padStart(digits, '0');
const inTypeScript = (text: string): string =>
  quoted(text, (point) => (point > 0xffff ? `\\u{${hex(point, 5)}}` : `\\u${hex(point, 4)}`));
const inPython = (text: string): string =>
  quoted(text, (point) => (point > 0xffff ? `\\U${hex(point, 8)}` : `\\u${hex(point, 4)}`));

function typeScript(
  { version, names }: TypedAgent,
  types: readonly NamedType[],
  input: string,
  output: string,
): string {
  const comment = (text: string | undefined, indent = ''): string =>
    text === undefined ? '' : `${indent}/** ${lineOf(text).replaceAll('*/', '*\\/')} */\n`;
  const show = (type: Type, indent: string): string => {
    switch (type.kind) {
      case 'integer':
        return 'number';
      case 'literal':
        return typeof type.value === 'string' ? inTypeScript(type.value) : String(type.value);
      case 'array':
        return `Array<${show(type.of, indent)}>`;
      case 'record':
        return `{ [name: string]: ${show(type.of, indent)} }`;
      case 'object': {
        const inner = `${indent}  `;
        const lines = Array.from(
          type.members,
          ([name, member]) =>
            `${comment(member.description, inner)}${inner}${/^[A-Za-z_]\w*$/.test(name) ? name : inTypeScript(name)}${member.isRequired ? '' : '?'}: ${show(member.type, inner)};\n`,
        );
        return `{\n${lines.join('')}${type.isOpen ? `${inner}[name: string]: unknown;\n` : ''}${indent}}`;
      }
      case 'union':
        return `(${type.types.map((each) => show(each, indent)).join(' | ')})`;
      case 'all':
        return `(${type.types.map((each) => show(each, indent)).join(' & ')})`;
      case 'name':
        return type.name;
      default:
        return type.kind;
    }
  };
  const declared = types.map(({ name, type, description }) => {
    // A call takes an object, also where no schema says so.
    const text = name === input && type.kind === 'unknown' ? 'object' : show(type, '');
    return `${comment(description)}export type ${name} = ${text};\n`;
  });
  const agents = names.map((name) => `    ${inTypeScript(name)}: { input: ${input}; output: ${output} };\n`);
  return `// Types of ${version}. ${MARK}
import type {} from 'agent-platform-sdk/agents';

${declared.join('\n')}
declare module 'agent-platform-sdk/agents' {
  interface Agents {
${agents.join('')}  }
}
`;
}

function python({ version }: TypedAgent, types: readonly NamedType[], taken: Set<string>): string {
  const blocks: string[] = [];
  /** Objects need names: they are declared before what uses them. */
  const show = (type: Type, path: string): string => {
    switch (type.kind) {
      case 'string':
        return 'str';
      case 'number':
        return 'float';
      case 'integer':
        return 'int';
      case 'boolean':
        return 'bool';
      case 'null':
        return 'None';
      case 'literal':
        return literal(type.value);
      case 'array':
        return `List[${show(type.of, `${path}Item`)}]`;
      case 'record':
        return `Dict[str, ${show(type.of, `${path}Value`)}]`;
      case 'object':
        return `"${declare(take(path, taken), type.members, undefined)}"`;
      case 'union':
        return `Union[${type.types.map((each) => show(each, path)).join(', ')}]`;
      case 'name':
        return `"${type.name}"`;
      default:
        return 'Any';
    }
  };
  const literal = (value: string | number | boolean): string => {
    if (typeof value === 'string') return `Literal[${inPython(value)}]`;
    if (typeof value === 'boolean') return value ? 'Literal[True]' : 'Literal[False]';
    return Number.isSafeInteger(value) ? `Literal[${value}]` : 'float';
  };
  // Names of members may be no names of Python, and Python 3.9 has no NotRequired.
  const declare = (name: string, members: ReadonlyMap<string, Member>, description: string | undefined): string => {
    const bases = [true, false].map((isRequired) => {
      const base = take(`_${name}${isRequired ? 'Required' : 'Optional'}`, taken);
      const lines = [...members]
        .filter(([, member]) => member.isRequired === isRequired)
        .map(([key, member]) => {
          const comment = member.description === undefined ? '' : `    # ${lineOf(member.description)}\n`;
          const shown = show(member.type, `${name}${identifierOf(key)}`.slice(0, 200));
          return `${comment}    ${inPython(key)}: ${shown},\n`;
        });
      blocks.push(`${base} = TypedDict("${base}", {\n${lines.join('')}}${isRequired ? '' : ', total=False'})\n`);
      return base;
    });
    const body = description === undefined ? 'pass' : inPython(lineOf(description));
    blocks.push(`class ${name}(${bases.join(', ')}):\n    ${body}\n`);
    return name;
  };
  for (const { name, type, description } of types) {
    if (type.kind === 'object') declare(name, type.members, description);
    else {
      const comment = description === undefined ? '' : `# ${lineOf(description)}\n`;
      const shown = type.kind === 'name' ? `Union["${type.name}"]` : show(type, `${name}Part`);
      blocks.push(`${comment}${name} = ${shown}\n`);
    }
  }
  return `# Types of ${version}. ${MARK}
from typing import Any, Dict, List, Literal, TypedDict, Union

${blocks.join('\n')}`;
}
