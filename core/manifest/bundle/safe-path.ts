import { utf8Length } from '#core/base/text.ts';

/** Limit of Linux and its file systems. */
const MAX_NAME_BYTES = 255;
const MAX_PATH_BYTES = 1024;

/**
 * Returns why `path` is not a plain relative file path that stays inside its folder on every operating system, to
 * complete "the path ..."; `undefined` if it is one.
 */
export function pathProblem(path: string): string | undefined {
  if (path === '') return 'is empty';
  if (utf8Length(path) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for them.
  if (/[\u0000-\u001f\u007f]/.test(path) || !path.isWellFormed()) return 'has a control character in it';
  if (path.includes('\\')) return 'has a backslash in it: separate folders by "/"';
  if (path.startsWith('/') || /^[A-Za-z]:/.test(path)) return 'is absolute: it must be relative to the root';
  for (const name of path.split('/')) {
    if (name === '..' || name === '.' || name === '') return 'has "..", "." or an empty name in it';
    if (utf8Length(name) > MAX_NAME_BYTES) return `has a name of more than ${MAX_NAME_BYTES} bytes in it`;
  }
  return undefined;
}
