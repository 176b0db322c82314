import ignore, { type Ignore } from 'ignore';

/** Whether a file is never packed and never watched. */
export const isHidden = (name: string): boolean =>
  name.startsWith('.') || name === 'node_modules' || name === '__pycache__';

interface Rules {
  readonly rules: Ignore;
  /**
   * Location of the `.gitignore`: its path relative to the agent's folder, or the agent's folder relative to a folder
   * above it.
   */
  readonly place: { readonly below: string } | { readonly above: string };
}

/**
 * Git's ignore rules in an agent's folder. Later rules override earlier ones, so rules of deeper folders are added
 * later.
 */
export class IgnoreRules {
  readonly #all: readonly Rules[];

  constructor(all: readonly Rules[] = []) {
    this.#all = all;
  }

  /** Returns the rules extended by the text of a `.gitignore`. */
  with(place: Rules['place'], text: string): IgnoreRules {
    return new IgnoreRules([...this.#all, { place, rules: ignore().add(text) }]);
  }

  /** @param path relative to the agent's folder, with `/` */
  ignores(path: string, isFolder: boolean): boolean {
    let ignored = false;
    for (const { place, rules } of this.#all) {
      const from =
        'above' in place ? `${place.above}/${path}` : path.slice(place.below === '' ? 0 : place.below.length + 1);
      const { ignored: yes, unignored: no } = rules.test(isFolder ? `${from}/` : from);
      if (yes || no) ignored = yes;
    }
    return ignored;
  }
}
