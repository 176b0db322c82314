import { identifierOf, type Member, type NamedType, type Type, take } from './schema-type.ts';
import { hex, lineOf, quoted } from './texts.ts';

/** A string literal of Python, on one line. */
export const inPython = (text: string): string =>
  quoted(text, (point) => (point > 0xffff ? `\\U${hex(point, 8)}` : `\\u${hex(point, 4)}`));

/** What the declarations import. */
export const PYTHON_TYPING = 'from typing import Any, Dict, List, Literal, TypedDict, Union';

/** Declarations of types, for Python 3.9. `taken` are the names of the same module. */
export function pythonTypes(types: readonly NamedType[], taken: Set<string>): string {
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
      const shown = show(type, `${name}Part`);
      // Alone, a text or `None` would make a variable, which is no type (PEP 484, "Type aliases").
      const isAlias = type.kind !== 'name' && type.kind !== 'null';
      blocks.push(`${comment}${name} = ${isAlias ? shown : `Union[${shown}]`}\n`);
    }
  }
  return blocks.join('\n');
}
