import type { NamedType, Type } from './schema-type.ts';
import { hex, lineOf, quoted } from './texts.ts';

/** A string literal of TypeScript, on one line. */
export const inTypeScript = (text: string): string =>
  quoted(text, (point) => (point > 0xffff ? `\\u{${hex(point, 5)}}` : `\\u${hex(point, 4)}`));

/** A comment on one line. No text ends it. */
const comment = (text: string | undefined, indent = ''): string =>
  text === undefined ? '' : `${indent}/** ${lineOf(text).replaceAll('*/', '*\\/')} */\n`;

/** Declarations of types. `input` is the name of the type that a call takes. */
export function typeScriptTypes(types: readonly NamedType[], input: string): string {
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
  return declared.join('\n');
}
