import { parse } from 'yaml';
import { utf8Length } from '#core/base/text.ts';
import { pathProblem } from './bundle/safe-path.ts';
import type { WholeSkillFile } from './definition.ts';
import { type FieldError, isObject, show } from './field-error.ts';

export interface SkillText {
  readonly name: string;
  /** Not cut yet: see {@link shortDescription}. */
  readonly description: string;
  /** The Markdown after the front matter, trimmed. */
  readonly body: string;
}

/** Maximum length of the name in SKILL.md (`docs/interface/skills.md#skillmd`). */
const MAX_NAME_LENGTH = 64;
const MAX_DESCRIPTION_LENGTH = 1024;
/** A longer word is cut itself. */
const MAX_CUT_WORD = 100;
/** Maximum number of additional files (`docs/interface/skills.md#skillmd`). */
const MAX_FILES = 200;
const MAX_FILE_BYTES = 8_000_000;
const FRONT_MATTER = /^---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/;

export const hasFrontMatter = (text: string): boolean => text.startsWith('---');

/**
 * Reads a SKILL.md: YAML with `name` and `description` between two `---` lines, then Markdown
 * (`docs/interface/skills.md#skillmd`).
 */
export function parseSkill(text: string): { skill?: SkillText; errors: FieldError[] } {
  const match = FRONT_MATTER.exec(text.replace(/^\ufeff/, ''));
  if (match === null) {
    return { errors: [{ field: 'SKILL.md', message: 'must begin with front matter: YAML between two "---" lines' }] };
  }
  const errors: FieldError[] = [];
  const { name, description } = readYaml(match[1]!, errors);
  const body = text
    .replace(/^\ufeff/, '')
    .slice(match[0].length)
    .trim();
  if (typeof name !== 'string' || name.length > MAX_NAME_LENGTH || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name)) {
    const rule = `must be lower-case letters, digits and single hyphens, at most ${MAX_NAME_LENGTH}`;
    errors.push({ field: 'SKILL.md name', message: `${rule}, but is ${show(name)}` });
  }
  if (typeof description !== 'string' || description.trim() === '') {
    errors.push({ field: 'SKILL.md description', message: `must be text, but is ${show(description)}` });
  }
  if (body === '') errors.push({ field: 'SKILL.md', message: 'must have instructions after the front matter' });
  if (errors.length > 0) return { errors };
  return { skill: { name: name as string, description: (description as string).trim(), body }, errors };
}

function readYaml(text: string, errors: FieldError[]): Record<string, unknown> {
  try {
    const value: unknown = parse(text, { schema: 'core', maxAliasCount: 10 });
    if (isObject(value)) return value;
    errors.push({ field: 'SKILL.md', message: 'must have front matter with the members name and description' });
  } catch (error) {
    const reason = (error as Error).message.split('\n')[0]!.slice(0, 200);
    errors.push({ field: 'SKILL.md', message: `has front matter that is not YAML (${reason})` });
  }
  return {};
}

/**
 * Returns a description of at most 1,024 characters, cut after a word, and a warning if it was longer. Coding agents read
 * the description with each task, so its length costs tokens; skills as they are in the world exceed it nevertheless.
 */
export function shortDescription(text: string): { readonly description: string; readonly warnings: string[] } {
  const whole = text.length <= MAX_DESCRIPTION_LENGTH ? text : text.trim();
  if (whole.length <= MAX_DESCRIPTION_LENGTH) return { description: whole, warnings: [] };
  const room = whole.slice(0, MAX_DESCRIPTION_LENGTH - 1);
  const end = Math.max(room.lastIndexOf(' '), room.lastIndexOf('\n'));
  const isWhole = /\s/.test(whole[room.length]!) || end < room.length - MAX_CUT_WORD;
  const words = isWhole ? room : room.slice(0, end);
  const description = `${words.replace(/[\ud800-\udbff]$/, '').trimEnd()}…`;
  const warning = `The description was cut to ${description.length} of its ${whole.length} characters: that of a skill may have ${MAX_DESCRIPTION_LENGTH}.`;
  return { description, warnings: [warning] };
}

/** A file of a skill as authors send it. */
export interface GivenSkillFile {
  readonly path: string;
  readonly content: string;
  readonly encoding?: 'base64' | null;
}

/**
 * Checks the additional files of a skill: safe paths, text or base64, at most 200 files and 8 MB
 * (`docs/interface/skills.md#skillmd`).
 */
export function checkSkillFiles(
  files: readonly GivenSkillFile[],
  field: string,
): { files: WholeSkillFile[]; errors: FieldError[] } {
  const errors: FieldError[] = [];
  const paths = new Set<string>();
  const sized = files.map(
    ({ path, content, encoding }): WholeSkillFile =>
      encoding === 'base64'
        ? { path, content, size: bytesInBase64(content), encoding }
        : { path, content, size: utf8Length(content) },
  );
  for (const [index, file] of sized.entries()) {
    const { path } = file;
    const problem = pathProblem(path);
    if (problem !== undefined) errors.push({ field: `${field}[${index}].path`, message: problem });
    else if (paths.has(path)) {
      errors.push({ field: `${field}[${index}].path`, message: `is ${show(path)} a second time` });
    } else if (sized.some((other) => other.path.startsWith(`${path}/`))) {
      errors.push({ field: `${field}[${index}].path`, message: `is ${show(path)}, which is a folder of another file` });
    }
    paths.add(path);
    const wrong = contentProblem(file);
    if (wrong !== undefined) errors.push({ field: `${field}[${index}].content`, message: wrong });
  }
  errors.push(...sizeProblems(sized, field));
  return { files: sized, errors };
}

/** Checks the number and total size of a skill's files. */
export function sizeProblems(files: readonly { readonly size: number }[], field: string): FieldError[] {
  const errors: FieldError[] = [];
  if (files.length > MAX_FILES)
    errors.push({ field, message: `must be at most ${MAX_FILES}, but are ${files.length}` });
  const total = files.reduce((sum, { size }) => sum + size, 0);
  if (total > MAX_FILE_BYTES) {
    errors.push({ field, message: `must have at most ${MAX_FILE_BYTES} bytes in total, but have ${total}` });
  }
  return errors;
}

function contentProblem({ content, encoding }: WholeSkillFile): string | undefined {
  if (encoding === 'base64') {
    const isBase64 = content.length % 4 === 0 && !/[^A-Za-z0-9+/]/.test(content.replace(/={1,2}$/, ''));
    return isBase64 ? undefined : 'must be base64, with padding and without line ends';
  }
  const isText = content.isWellFormed() && !content.includes('\0');
  return isText ? undefined : 'must be text: send other content as base64, with "encoding": "base64"';
}

/** Returns the number of bytes that base64 with padding stands for. */
function bytesInBase64(text: string): number {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  return Math.max(0, Math.floor((text.length * 3) / 4) - padding);
}
