import { type Assignment, type Command, forEachChild, parse, type SyntaxNode, type Word } from 'unbash';
import type { Json } from '#core/base/json.ts';
import { shellQuote } from '../bundle/entrypoint.ts';

/**
 * Fills the placeholders `{{name}}` in commands of custom tools with a model's values (`docs/interface/loops.md#custom-tools`).
 * However the author quoted a placeholder, the shell never parses a value.
 *
 * A value is assigned to a variable, quoted, in a line before the command, and a reference to the variable replaces the
 * placeholder. The shell expands references after it has parsed: a mistake about the quotes around a placeholder can make
 * an argument wrong, but cannot make a value a command. Some places parse an expanded value again: `eval`, arithmetic, the
 * program text of an interpreter. Only numbers and booleans may stand there.
 */

const PLACEHOLDER = /\{\{(\w+)\}\}/g;

/** The kernel takes 128 KB in one argument, and the shell line is one. */
const MAX_COMMAND_BYTES = 120_000;

/** Commands are untrusted, and the parser recurses into every level. A placeholder has two brackets. */
const MAX_BRACKETS = 500;

interface Place {
  readonly name: string;
  readonly pos: number;
  readonly end: number;
  /** The shell text that replaces the placeholder. */
  reference?: (variable: string) => string;
  /** Why no text can stand there, as the end of "{{name}} stands ...". */
  problem?: string;
}

/** The placeholders of a command that cannot take every value, with the reason. */
export function commandProblems(command: string): { readonly name: string; readonly problem: string }[] {
  return placesIn(command).flatMap(({ name, problem }) => (problem === undefined ? [] : [{ name, problem }]));
}

/**
 * A tool's command with its values: text as it is, objects and arrays as JSON; placeholders without a value are empty.
 * `problem` says, to the model, why a value cannot be filled in.
 */
export function fillCommand(
  command: string,
  values: { readonly [name: string]: Json },
): { readonly command: string } | { readonly problem: string } {
  const assignments = new Map<string, string>();
  let filled = '';
  let done = 0;
  for (const { name, pos, end, reference, problem } of placesIn(command)) {
    const value = Object.hasOwn(values, name) ? values[name]! : null;
    filled += command.slice(done, pos);
    done = end;
    if (value === null) continue;
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (text.includes('\0')) return { problem: `"${name}" holds a NUL character, which no command line can hold.` };
    if (reference === undefined) {
      // Digits, a dot, a sign, true and false mean the same everywhere.
      if (typeof value !== 'number' && typeof value !== 'boolean') {
        return {
          problem: `the tool takes only a number or a boolean as "${name}": its placeholder stands ${problem}.`,
        };
      }
      filled += text;
      continue;
    }
    const variable = `PLATFORM_ARGUMENT_${name}`;
    assignments.set(variable, shellQuote(text));
    filled += reference(variable);
  }
  filled += command.slice(done);
  const lines = [...assignments].map(([variable, quoted]) => `${variable}=${quoted}\n`);
  const whole = lines.join('') + filled;
  const bytes = Buffer.byteLength(whole);
  return bytes > MAX_COMMAND_BYTES
    ? { problem: `the command line would have ${bytes} bytes with these parameters; at most ${MAX_COMMAND_BYTES} fit.` }
    : { command: whole };
}

/** The placeholders in order. For parsing, a word of the same length replaces each. */
function placesIn(command: string): Place[] {
  const places: Place[] = [...command.matchAll(PLACEHOLDER)].map((match) => ({
    name: match[1]!,
    pos: match.index,
    end: match.index + match[0].length,
    problem: 'where the shell takes no values',
  }));
  if ((command.match(/[({`]/g)?.length ?? 0) > MAX_BRACKETS) {
    for (const place of places) place.problem = `in a command with more than ${MAX_BRACKETS} brackets and backquotes`;
  } else if (places.length > 0) {
    const marker = new Marker(command, places);
    marker.visit(parse(command.replace(PLACEHOLDER, (match) => 'x'.repeat(match.length))));
    marker.followVariables();
  }
  return places;
}

const BARE = (variable: string): string => `"\${${variable}}"`;
const IN_DOUBLE_QUOTES = (variable: string): string => `\${${variable}}`;
const IN_SINGLE_QUOTES = (variable: string): string => `'"\${${variable}}"'`;
const IN_ANSI_QUOTES = (variable: string): string => `'"\${${variable}}"$'`;

/** Decides for each place what can stand there. Places that it does not visit stay refused. */
class Marker {
  readonly #command: string;
  readonly #places: readonly Place[];
  readonly #assignments: Assignment[] = [];
  /** Variables whose values are parsed again, and where. */
  readonly #evaluated = new Map<string, string>();

  constructor(command: string, places: readonly Place[]) {
    this.#command = command;
    this.#places = places;
  }

  visit(node: SyntaxNode): void {
    // Nested backquotes are parsed from a separate text, whose positions differ.
    if (node.type === 'Script' && node.source !== undefined) return;
    const problem = problemOf(node);
    if (problem !== undefined) this.#refuse(node, problem);
    else if (node.type === 'Word') this.#visitWord(node);
    else if (node.type === 'HereDocBody') this.#visitQuoted(node.parts ?? [node]);
    else {
      if (node.type === 'Assignment') this.#assignments.push(node);
      const refused = refusedChildren(node, (word) => this.#placesIn(word).length > 0);
      forEachChild(node, (child) => {
        const reason = refused.get(child);
        if (reason === undefined) this.visit(child);
        else this.#refuse(child, reason);
      });
    }
  }

  /** Refuses values in variables whose own values are parsed again. */
  followVariables(): void {
    for (const { name, value } of this.#assignments) {
      const problem = this.#evaluated.get(name);
      if (problem !== undefined) this.#refuse(value, `in the variable ${name}, which stands ${problem}`);
    }
  }

  #visitWord(word: Word): void {
    for (const part of word.parts ?? [word]) {
      if (part.type === 'Literal' || part.type === 'Word') this.#allow(part, BARE);
      else if (part.type === 'SingleQuoted') this.#allow(part, IN_SINGLE_QUOTES);
      else if (part.type === 'AnsiCQuoted') this.#allow(part, IN_ANSI_QUOTES);
      else if (part.type === 'DoubleQuoted' || part.type === 'LocaleString') this.#visitQuoted(part.parts);
      else this.visit(part);
    }
  }

  #visitQuoted(parts: readonly SyntaxNode[]): void {
    for (const part of parts) {
      if (part.type === 'Literal' || part.type === 'HereDocBody') this.#allow(part, IN_DOUBLE_QUOTES);
      else this.visit(part);
    }
  }

  #refuse(node: SyntaxNode, problem: string): void {
    // The body of a here-document lies past its command.
    for (const place of this.#placesIn(node.type === 'HereDoc' ? node.body : node)) {
      place.problem = problem;
      place.reference = undefined;
    }
    // Expansions parse nothing again: they are refused because no reference can stand in them.
    if (!/^(Parameter|Simple|Brace)Expansion$/.test(node.type)) this.#collectVariables(node, problem);
  }

  #collectVariables(node: SyntaxNode, problem: string): void {
    if (node.type === 'ParameterExpansion') this.#evaluated.set(node.parameter, problem);
    if (node.type === 'SimpleExpansion') this.#evaluated.set(node.text.slice(1), problem);
    if (node.type === 'ArithmeticWord') this.#evaluated.set(node.value.replace(/^\$\{?|\}$/g, ''), problem);
    forEachChild(node, (child) => this.#collectVariables(child, problem));
  }

  #allow(node: SyntaxNode, reference: Place['reference']): void {
    for (const place of this.#placesIn(node)) {
      const before = this.#command[place.pos - 1];
      const isEscaped = reference !== IN_SINGLE_QUOTES && (before === '\\' || before === '$');
      place.problem = isEscaped ? `directly after "${before}"` : undefined;
      place.reference = isEscaped ? undefined : reference;
    }
  }

  #placesIn({ pos, end }: SyntaxNode): Place[] {
    return this.#places.filter((place) => place.pos >= pos && place.end <= end);
  }
}

/** Why no text can stand in any part of a node. */
function problemOf(node: SyntaxNode): string | undefined {
  switch (node.type) {
    case 'Script':
      return 'errors' in node && node.errors ? 'in a command that bash cannot read' : undefined;
    case 'TestUnary':
      return /^-[vR]$/.test(node.operator) ? 'where a name is expected' : undefined;
    case 'TestBinary':
      return /^-(eq|ne|lt|le|gt|ge)$/.test(node.operator)
        ? 'in a comparison of numbers, whose sides the shell evaluates; use [ ] instead of [[ ]]'
        : undefined;
    case 'ParameterExpansion':
    case 'SimpleExpansion':
      return 'in the expansion of a variable';
    case 'BraceExpansion':
    case 'ExtendedGlob':
      return 'in a pattern of the shell; put it outside';
    default:
      return node.type.startsWith('Arithmetic') && node.type !== 'ArithmeticFor'
        ? 'in an arithmetic expression, which the shell evaluates'
        : undefined;
  }
}

type Refused = Map<SyntaxNode | undefined, string>;

/** Children of a node in which no text can stand, with the reason. */
function refusedChildren(node: SyntaxNode, hasPlace: (word: Word) => boolean): Refused {
  switch (node.type) {
    case 'Command':
      return refusedParts(node, hasPlace);
    case 'HereDoc':
      return new Map(
        node.delimiter?.quoted
          ? [
              [
                node.body,
                'in a here-document whose end mark is quoted, which the shell leaves as it is; remove the quotes',
              ],
            ]
          : [],
      );
    case 'Assignment':
      return new Map<SyntaxNode | undefined, string>([
        [node.index, 'in a subscript, which the shell evaluates'],
        ...(EVALUATED_VARIABLE.test(node.name)
          ? [[node.value, `in ${node.name}, which the shell evaluates`] as const]
          : []),
      ]);
    case 'For':
    case 'Select':
    case 'Function':
    case 'Coproc':
      return new Map([[node.name, 'where a name is expected']]);
    default:
      return new Map();
  }
}

/** Variables that the shell itself parses again. */
const EVALUATED_VARIABLE = /^(BASH_ENV|ENV|PS\d|PROMPT_COMMAND)$/;
/** Builtins that parse their arguments again, or take names, which may have subscripts. */
const EVALUATES =
  /^(eval|source|\.|trap|let|declare|typeset|local|readonly|unset|alias|read|mapfile|readarray|getopts|compgen|complete|bind|enable|wait)$/;
/** Programs that run a command from their arguments. */
const RUNS_OTHERS =
  /^(exec|env|xargs|timeout|nohup|nice|ionice|sudo|doas|su|time|stdbuf|setsid|unshare|nsenter|chroot|strace|find|parallel|watch|flock|busybox|ssh|uv|uvx|npx|poetry|pipenv|docker|podman)$/;
const INTERPRETER = /^((ba|da|k|z|a)?sh|su|script|(python|pypy)[\d.]*|node(js)?|deno|bun|perl|ruby|php|lua|Rscript)$/;
/** Interpreters that take no options after a program text. */
const ONE_PROGRAM = /^((ba|da|k|z|a)?sh|su|script|(python|pypy)[\d.]*)$/;
const PROGRAM_FLAG = /^(-[A-Za-z]*[ceEpr]|--eval|--print|--command|eval)$/;
const ATTACHED_PROGRAM = /^(-[A-Za-z]*[ceEpr]\W|--eval=|--print=|--command=)/;
const FILTER = /^([gmn]?awk|g?sed)$/;
const FILTER_PROGRAM_FLAG = /^(-[A-Za-z]*e|--expression|--source)$/;
const FILTER_ATTACHED_PROGRAM = /^(-[nErs]*e|--expression=|--source=)./;
/** Options whose value is the next word. */
const FLAG_WITH_VALUE = /^([-+][WXoOIM]|-[vF]|--assign|--rcfile|--init-file)$/;

function refusedParts({ name, args, redirects }: Command, hasPlace: (word: Word) => boolean): Refused {
  const refused: Refused = new Map();
  if (name === undefined) return refused;
  const all = [name, ...args.filter((word) => word.type === 'Word')];
  // `command` and `builtin` only run the command that follows.
  let first = 0;
  while (
    all[first + 1] &&
    (/^(command|builtin)$/.test(baseName(all[first]!)) || (first > 0 && /^-/.test(all[first]!.value)))
  )
    first++;
  const words = all.slice(first);
  refused.set(words[0], 'where the name of the program stands; name the program, and let values be its arguments');
  const program = baseName(words[0]!);
  if (EVALUATES.test(program)) {
    for (const word of args) refused.set(word, `in the arguments of ${program}, which evaluates them`);
  }
  if (program === 'printf') {
    const format = words[words[1]?.value === '-v' ? 3 : 1];
    if (format?.value !== '--')
      refused.set(format, 'in the format of printf; use %s there, and let the value follow it');
  }
  const isTest = program === 'test' || program === '[';
  for (const [index, word] of words.entries()) {
    const isName = (isTest || program === 'printf') && /^-[vR]$/.test(words[index - 1]?.value ?? '');
    if (isName) refused.set(word, 'where a name is expected');
    // The first of two values could be an operator that takes a name.
    const next = words[index + 1];
    if (isTest && next && hasPlace(word) && hasPlace(next)) refused.set(word, 'where an operator is expected');
  }
  for (const start of RUNS_OTHERS.test(program) ? words.keys() : [0]) {
    const started = baseName(words[start]!);
    const reason = `in the program text of ${started}; let the value be an argument or a variable of that program`;
    const texts = programTexts(started, words.slice(start + 1));
    if (texts !== 'stdin') for (const text of texts) refused.set(text, reason);
    else for (const redirect of redirects) if (redirect.type !== 'Redirect') refused.set(redirect, reason);
  }
  return refused;
}

const baseName = ({ value }: Word): string => value.slice(value.lastIndexOf('/') + 1);

/** The arguments that an interpreter runs as programs; none if it runs a file, `stdin` if it runs its input. */
function programTexts(name: string, args: readonly Word[]): Word[] | 'stdin' {
  if (FILTER.test(name)) return filterTexts(args);
  if (!INTERPRETER.test(name)) return [];
  const texts: Word[] = [];
  for (let index = 0; index < args.length; index++) {
    const word = args[index]!;
    const next = args[index + 1];
    if (PROGRAM_FLAG.test(word.value) && next) {
      texts.push(next);
      // This flag has no value: bash -e -c TEXT.
      if (/^-/.test(next.value)) continue;
      if (ONE_PROGRAM.test(name)) return texts;
      index++;
    } else if (ATTACHED_PROGRAM.test(word.text)) texts.push(word);
    else if (FLAG_WITH_VALUE.test(word.value)) index++;
    else if (word.value === '-') return 'stdin';
    else if (!/^[-+]/.test(word.value)) return texts;
  }
  return texts.length > 0 ? texts : 'stdin';
}

/** Programs of awk and sed: the values of their options; without such options, the first argument. */
function filterTexts(args: readonly Word[]): Word[] {
  const texts: Word[] = [];
  let first: Word | undefined;
  for (let index = 0; index < args.length; index++) {
    const word = args[index]!;
    if (FILTER_PROGRAM_FLAG.test(word.value)) texts.push(...args.slice(++index, index + 1));
    else if (FILTER_ATTACHED_PROGRAM.test(word.text)) texts.push(word);
    else if (FLAG_WITH_VALUE.test(word.value)) index++;
    else if (!/^[-+]/.test(word.value)) first ??= word;
  }
  return texts.length > 0 || first === undefined ? texts : [first];
}
