import { readFile, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import ignore, { type Ignore } from 'ignore';

/** Never packed and never watched. */
export const isHidden = (name: string): boolean =>
  name.startsWith('.') || name === 'node_modules' || name === '__pycache__';

/** A path with `/`, on every system. */
export const withSlashes = (path: string): string => (sep === '/' ? path : path.replaceAll(sep, '/'));

interface Rules {
  /** Of the `.gitignore`; below the repository, or of the agent where there is none. */
  readonly folder: string;
  readonly rules: Ignore;
}

/** What git ignores in a folder: its own `.gitignore`, those above it in its repository, and those below. */
export class GitIgnore {
  readonly #folder: string;
  readonly #all: readonly Rules[];

  private constructor(folder: string, all: readonly Rules[]) {
    this.#folder = folder;
    this.#all = all;
  }

  static async of(folder: string): Promise<GitIgnore> {
    const above: string[] = [];
    for (let at = folder; ; at = dirname(at)) {
      above.unshift(at);
      if (await isThere(join(at, '.git'))) break;
      // Without a repository, only the folder itself counts.
      if (dirname(at) === at) {
        above.splice(0, above.length, folder);
        break;
      }
    }
    const all = await Promise.all(above.map(rulesOf));
    return new GitIgnore(folder, all.flat());
  }

  /** With the rules of a folder below, given by its path from the agent's folder. */
  async below(path: string): Promise<GitIgnore> {
    const more = await rulesOf(join(this.#folder, path));
    return more.length === 0 ? this : new GitIgnore(this.#folder, [...this.#all, ...more]);
  }

  /** @param path from the agent's folder, with `/` */
  ignores(path: string, isFolder: boolean): boolean {
    let ignored = false;
    for (const { folder, rules } of this.#all) {
      const from = withSlashes(relative(folder, join(this.#folder, path)));
      const { ignored: yes, unignored: no } = rules.test(isFolder ? `${from}/` : from);
      if (yes || no) ignored = yes;
    }
    return ignored;
  }
}

async function rulesOf(folder: string): Promise<Rules[]> {
  const text = await readFile(join(folder, '.gitignore'), 'utf8').catch(() => undefined);
  return text === undefined ? [] : [{ folder, rules: ignore().add(text) }];
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
