/** `{a,b}` in one pattern stands for at most so many. */
const MAX_PATTERNS = 1_000;

/**
 * Whether a path with `/` matches a glob: `*`, `?` and `[a-z]` within a name, `**` as a name for any folders, `{a,b}` for either.
 * Throws an Error for a glob with too many braces.
 */
export function matchesGlob(path: string, glob: string): boolean {
  const names = path.split('/');
  return compiled(glob).some((parts) => matchesParts(names, parts));
}

type Part = RegExp | '**';
const known = new Map<string, readonly (readonly Part[])[]>();

function compiled(glob: string): readonly (readonly Part[])[] {
  let parts = known.get(glob);
  if (parts === undefined) {
    parts = withoutBraces(glob).map((each) => each.split('/').map((part) => (part === '**' ? part : patternOf(part))));
    known.set(glob, parts);
  }
  return parts;
}

function matchesParts(names: readonly string[], parts: readonly Part[]): boolean {
  // Of the names up to here: whether the parts so far match them.
  let matched = [true, ...names.map(() => false)];
  for (const [index, part] of parts.entries()) {
    const next = names.map(() => false);
    next.unshift(false);
    if (part === '**') {
      // The last one stands for at least one name.
      let isOpen = false;
      for (let at = 0; at <= names.length; at++) {
        const isLast = index === parts.length - 1;
        next[at] = isOpen || (matched[at]! && !(isLast && index > 0));
        isOpen ||= matched[at]!;
      }
    } else {
      for (const [at, name] of names.entries()) next[at + 1] = matched[at]! && part.test(name);
    }
    matched = next;
  }
  return matched[names.length]!;
}

/** A part of a glob between slashes. Names that begin with a dot match no wildcard. */
function patternOf(part: string): RegExp {
  let source = /^[*?[]/.test(part) ? '(?!\\.)' : '';
  for (let at = 0; at < part.length; at++) {
    const sign = part[at]!;
    const end = sign === '[' ? part.indexOf(']', at + (/^\[[!^]/.test(part.slice(at)) ? 3 : 2)) : -1;
    if (sign === '*') {
      source += part[at - 1] === '*' ? '' : '[^/]*?';
    } else if (sign === '?') source += '[^/]';
    else if (end > 0) {
      const members = part
        .slice(at + 1, end)
        .replaceAll('\\', '\\\\')
        .replaceAll('[', '\\[')
        .replaceAll('&&', '&\\&');
      source += `[${members.replace(/^[!^]/, '^')}]`;
      at = end;
    } else source += sign.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&');
  }
  return new RegExp(`^${source}$`, 's');
}

/** `a{b,c{d,e}}` -> `ab`, `acd`, `ace`. Braces without a comma stand for themselves. */
function withoutBraces(glob: string): string[] {
  for (let open = glob.indexOf('{'); open >= 0; open = glob.indexOf('{', open + 1)) {
    const commas: number[] = [];
    let depth = 0;
    for (let at = open; at < glob.length; at++) {
      if (glob[at] === '{') depth++;
      else if (glob[at] === ',' && depth === 1) commas.push(at);
      else if (glob[at] === '}' && --depth === 0) {
        if (commas.length === 0) break;
        const cuts = [open, ...commas, at];
        const found = cuts.slice(1).flatMap((cut, index) => {
          const choice = glob.slice(cuts[index]! + 1, cut);
          return withoutBraces(`${glob.slice(0, open)}${choice}${glob.slice(at + 1)}`);
        });
        if (found.length > MAX_PATTERNS) throw new Error(`"${glob.slice(0, 80)}" has too many braces.`);
        return found;
      }
    }
  }
  return [glob];
}
