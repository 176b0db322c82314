import { parse } from 'yaml';
import { utf8Length } from '#core/base/text.ts';
import { pathProblem } from './bundle/safe-path.ts';
import type { SkillFile } from './definition.ts';
import { type FieldError, isObject, show } from './field-error.ts';

export interface SkillText {
  readonly name: string;
  readonly description: string;
  /** The Markdown after the front matter, trimmed. */
  readonly body: string;
}

/** Maximum length of the name in SKILL.md (`docs/interface/skills.md#skillmd`). */
const MAX_NAME_LENGTH = 64;
const MAX_DESCRIPTION_LENGTH = 1024;
/** Maximum number of additional files (`docs/interface/skills.md#skillmd`). */
const MAX_FILES = 20;
const MAX_FILE_BYTES = 500_000;
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
  if (typeof description !== 'string' || description.trim() === '' || description.length > MAX_DESCRIPTION_LENGTH) {
    const rule = `must be 1-${MAX_DESCRIPTION_LENGTH} characters of text`;
    errors.push({ field: 'SKILL.md description', message: `${rule}, but is ${show(description)}` });
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
 * Checks the additional files of a skill: safe paths, text only, at most 20 files and 500,000 bytes
 * (`docs/interface/skills.md#skillmd`).
 */
export function checkSkillFiles(
  files: readonly { path: string; content: string }[],
  field: string,
): { files: SkillFile[]; errors: FieldError[] } {
  const errors: FieldError[] = [];
  const paths = new Set<string>();
  const sized = files.map(({ path, content }) => ({ path, content, size: utf8Length(content) }));
  for (const [index, { path, content }] of sized.entries()) {
    const problem = pathProblem(path);
    if (problem !== undefined) errors.push({ field: `${field}[${index}].path`, message: problem });
    else if (paths.has(path)) {
      errors.push({ field: `${field}[${index}].path`, message: `is ${show(path)} a second time` });
    } else if (sized.some((other) => other.path.startsWith(`${path}/`))) {
      errors.push({ field: `${field}[${index}].path`, message: `is ${show(path)}, which is a folder of another file` });
    }
    paths.add(path);
    if (content.includes('\0')) errors.push({ field: `${field}[${index}].content`, message: 'must be text' });
  }
  if (sized.length > MAX_FILES)
    errors.push({ field, message: `must be at most ${MAX_FILES}, but are ${sized.length}` });
  const total = sized.reduce((sum, { size }) => sum + size, 0);
  if (total > MAX_FILE_BYTES) {
    errors.push({ field, message: `must have at most ${MAX_FILE_BYTES} bytes in total, but have ${total}` });
  }
  return { files: sized, errors };
}
