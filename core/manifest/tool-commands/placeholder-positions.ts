import {
  type Assignment,
  type Command,
  type CommandNode,
  forEachChild,
  type ParsedScript,
  type Pipeline,
  parse,
  type Redirection,
  type SyntaxNode,
  type Word,
  type WordPart,
} from 'unbash';
import type { Place, Quoting } from './fill-command.ts';
import { type Usage, usageOf } from './programs.ts';

/**
 * Finds the positions that allow text (`docs/interface/loops.md#places-for-text`) and records it in `places`.
 *
 * @param text The command, with a word of the same length instead of each placeholder.
 */
export function markPlaces(text: string, places: readonly Place[]): void {
  new Marker(text, places).mark();
}

/** A variable of the command that may hold a value. */
interface Variable {
  /** Placeholders whose values it may contain. */
  readonly places: Set<Place>;
  /** Variables that its value is assigned to. */
  readonly heirs: Set<string>;
  /** Whether it is used where text that begins with "-" would be an option. */
  isFirst: boolean;
}

/** Context that decides what a word may contain. */
interface WordContext {
  /** Whether the shell splits unquoted expansions. */
  readonly isSplit: boolean;
  /** Whether it is an argument that could be an option. */
  readonly isOption: boolean;
}

const ARGUMENT: WordContext = { isSplit: true, isOption: false };
const UNSPLIT: WordContext = { isSplit: false, isOption: false };

/** Marks positions while it walks the syntax tree. Positions that it does not visit stay refused. */
class Marker {
  readonly #text: string;
  readonly #places: readonly Place[];
  readonly #variables = new Map<string, Variable>();
  /**
   * Ranges that may contain names of variables: text that the shell does not evaluate, and expansions in safe
   * positions.
   */
  readonly #harmless: { readonly pos: number; readonly end: number }[] = [];

  /** `text` has a word of the same length instead of each placeholder. */
  constructor(text: string, places: readonly Place[]) {
    this.#text = text;
    this.#places = places;
  }

  mark(): void {
    this.#visit(parse(this.#text));
    this.#checkVariables();
  }

  #visit(node: SyntaxNode): void {
    switch (node.type) {
      case 'Script':
        this.#visitScript(node);
        break;
      case 'Pipeline':
        this.#visitPipeline(node);
        break;
      case 'Command':
        this.#visitCommand(node);
        break;
      case 'Redirected':
        this.#visit(node.command);
        this.#visitRedirects(node.redirects, 'in the input of a compound command; let it be the input of a program');
        break;
      case 'For':
      case 'Select':
        this.#assign(node.name, node.wordlist ?? [], ARGUMENT);
        this.#visit(node.body);
        break;
      case 'Case':
        this.#visitWord(node.word, UNSPLIT);
        for (const item of node.items) {
          for (const pattern of item.pattern) this.#visitWord(pattern, UNSPLIT);
          this.#visit(item.body);
        }
        break;
      case 'TestUnary':
        if (/^-[vR]$/.test(node.operator)) this.#refuse(node.operand, 'where a name is expected');
        else this.#visitWord(node.operand, UNSPLIT);
        break;
      case 'TestBinary':
        if (/^-(eq|ne|lt|le|gt|ge)$/.test(node.operator)) {
          const problem = 'in a comparison of numbers, whose sides the shell evaluates; use [ ] instead of [[ ]]';
          this.#refuse(node, problem);
        } else for (const side of [node.left, node.right]) this.#visitWord(side, UNSPLIT);
        break;
      case 'ArithmeticFor':
        for (const part of [node.initialize, node.test, node.update]) if (part) this.#refuse(part, IN_ARITHMETIC);
        this.#visit(node.body);
        break;
      case 'ArithmeticCommand':
        this.#refuse(node, IN_ARITHMETIC);
        break;
      case 'Function':
      case 'Coproc':
        if (node.name) this.#refuse(node.name, 'where a name is expected');
        this.#visit(node.body);
        break;
      case 'Word':
        this.#refuse(node, 'where the shell accepts no values');
        break;
      default:
        forEachChild(node, (child) => this.#visit(child));
    }
  }

  #visitScript(script: ParsedScript): void {
    if (script.errors) this.#refuse(script, 'in a command that bash cannot read');
    // Nested backquotes are parsed from a separate text, whose positions differ.
    else if (script.source === undefined) for (const statement of script.commands) this.#visit(statement);
  }

  /** The output of each command is the input of the next. */
  #visitPipeline({ commands }: Pipeline): void {
    for (const command of commands) this.#visit(command);
    for (const [index, command] of commands.entries()) {
      if (index === 0 || this.#readsData(command) || (index === 1 && this.#passNames(commands))) continue;
      for (const before of commands.slice(0, index)) {
        this.#refuse(before, 'in a pipe into something that might run it; use a program that only reads data');
        this.#refuseVariables(before);
      }
    }
  }

  /** Whether a pipe begins as `find DIR -print0 | xargs -0 PROGRAM`. */
  #passNames([from, to]: readonly CommandNode[]): boolean {
    if (from?.type !== 'Command' || to?.type !== 'Command') return false;
    return this.#usageOf(from).printsNames === true && this.#usageOf(to).readsNames === true;
  }

  #readsData(node: CommandNode): boolean {
    return node.type === 'Command' && this.#usageOf(node).readsData;
  }

  #usageOf({ name, args }: Command): Usage {
    const words = args.filter((word) => word.type === 'Word');
    return usageOf(name === undefined ? [] : [name, ...words], (word) => this.#placesIn(word).length > 0);
  }

  #visitCommand(command: Command): void {
    const { name, prefix, args, redirects } = command;
    for (const node of prefix) if (node.type === 'Assignment') this.#visitAssignment(node);
    const usage = this.#usageOf(command);
    if (name !== undefined) {
      const words = [name, ...args.filter((word) => word.type === 'Word')];
      for (const word of words) {
        const takes = usage.takes.get(word);
        if (takes !== undefined) this.#visitWord(word, { isSplit: true, isOption: takes === 'no option' });
        else {
          this.#refuse(word, usage.problem);
          if (usage.programs.has(word)) this.#allowNames(word.parts ?? [word]);
        }
      }
      // Other builtins that assign also evaluate subscripts and numbers.
      if (name.value === 'export') for (const node of args) if (node.type === 'Assignment') this.#visitAssignment(node);
    }
    this.#visitRedirects(redirects, usage.readsData ? undefined : usage.problem);
  }

  /** @param problem why the input allows no text */
  #visitRedirects(redirects: readonly Redirection[], problem?: string): void {
    for (const redirect of redirects) {
      if (redirect.type === 'Redirect') {
        if (redirect.target) this.#visitWord(redirect.target, ARGUMENT);
      } else if (problem !== undefined) {
        // The body of a here-document is after its command.
        this.#refuse(redirect.type === 'HereDoc' ? redirect.body : redirect, problem);
      } else if (redirect.type === 'HereString') {
        if (redirect.target) this.#visitWord(redirect.target, UNSPLIT);
      } else if (redirect.delimiter?.quoted) {
        this.#refuse(redirect.body, IN_QUOTED_HERE_DOC);
      } else this.#visitQuoted(redirect.body.parts ?? [redirect.body], UNSPLIT);
    }
  }

  #visitAssignment({ pos, name, value, index }: Assignment): void {
    const words = value.type === 'ArrayValue' ? value.elements : [value];
    if (index !== undefined) this.#refuse(index, 'in a subscript, which the shell evaluates');
    else if (mayAssign(name, this.#places)) {
      this.#assign({ pos, value: name }, words, value.type === 'ArrayValue' ? ARGUMENT : UNSPLIT);
    } else {
      const problem = `in ${name}, which programs may read as a setting; name the variable TOOL_${name}`;
      for (const word of words) this.#refuse(word, problem);
    }
  }

  #assign({ pos, value: name }: Pick<Word, 'pos' | 'value'>, words: readonly Word[], context: WordContext): void {
    this.#harmless.push({ pos, end: pos + name.length });
    const before = new Set(this.#variables.keys());
    for (const word of words) {
      for (const place of this.#placesIn(word)) this.#variable(name).places.add(place);
      for (const source of this.#visitWord(word, context)) this.#variable(source).heirs.add(name);
    }
    if (words.length > 0 && !before.has(name)) this.#variable(name);
  }

  #variable(name: string): Variable {
    const known = this.#variables.get(name) ?? { places: new Set(), heirs: new Set(), isFirst: false };
    this.#variables.set(name, known);
    return known;
  }

  /** Returns the variables that the word expands in its own text. */
  #visitWord(word: Word, context: WordContext): string[] {
    const names: string[] = [];
    const parts = word.parts ?? [word];
    for (const part of parts) {
      const isFirst = context.isOption && part === parts[0];
      if (part.type === 'DoubleQuoted' || part.type === 'LocaleString') {
        names.push(...this.#visitQuoted(part.parts, { isSplit: false, isOption: isFirst }));
      } else names.push(...this.#visitPart(part, { isSplit: context.isSplit, isOption: isFirst }, 'bare'));
    }
    if (context.isOption) this.#markFirst(word);
    return names;
  }

  #visitQuoted(parts: readonly SyntaxNode[], { isOption }: WordContext): string[] {
    return parts.flatMap((part) =>
      this.#visitPart(part, { isSplit: false, isOption: isOption && part === parts[0] }, 'double'),
    );
  }

  #visitPart(part: SyntaxNode, { isSplit, isOption }: WordContext, quoting: Quoting): string[] {
    switch (part.type) {
      case 'Literal':
      case 'Word':
      case 'HereDocBody':
        this.#allow(part, quoting);
        break;
      case 'SingleQuoted':
        this.#allow(part, 'single');
        break;
      case 'AnsiCQuoted':
        this.#allow(part, 'ansi');
        break;
      case 'SimpleExpansion':
      case 'ParameterExpansion': {
        this.#refuse(part, 'in the expansion of a variable');
        const name = plainName(part);
        if (name === undefined || isSplit) break;
        this.#harmless.push({ pos: part.pos, end: part.end });
        if (isOption) this.#variable(name).isFirst = true;
        return [name];
      }
      case 'CommandExpansion':
        if (isSplit) this.#refuse(part, 'in $( ) without quotes, which the shell splits; put double quotes around it');
        else if (isOption) this.#refuse(part, 'in $( ) at the beginning of an argument; put -- before the argument');
        else if (part.script) this.#visitScript(part.script);
        break;
      case 'ProcessSubstitution':
        if (part.script) this.#visitScript(part.script);
        break;
      case 'ArithmeticExpansion':
        this.#refuse(part, IN_ARITHMETIC);
        break;
      case 'BraceExpansion':
      case 'ExtendedGlob':
        this.#refuse(part, 'in a pattern of the shell; put it outside');
        break;
      default:
    }
    return [];
  }

  /** Allows names of variables in the text of a program, which reads them from its environment. */
  #allowNames(parts: readonly SyntaxNode[]): void {
    for (const { type, pos, end } of parts) {
      if (type === 'SingleQuoted' || type === 'Literal') this.#harmless.push({ pos, end });
    }
  }

  #refuse(node: SyntaxNode, problem: string): void {
    for (const place of this.#placesIn(node)) {
      place.problem = problem;
      place.quoting = undefined;
    }
  }

  /** Refuses values of variables that the node expands. */
  #refuseVariables({ pos, end }: SyntaxNode): void {
    const others = this.#harmless.filter(
      (range) => this.#text[range.pos] !== '$' || range.pos < pos || range.end > end,
    );
    this.#harmless.splice(0, this.#harmless.length, ...others);
  }

  #allow(node: SyntaxNode, quoting: Quoting): void {
    this.#harmless.push({ pos: node.pos, end: node.end });
    for (const place of this.#placesIn(node)) {
      const before = this.#text[place.pos - 1];
      const isEscaped = quoting !== 'single' && (before === '\\' || before === '$');
      place.problem = isEscaped ? `directly after "${before}"` : undefined;
      place.quoting = isEscaped ? undefined : quoting;
    }
  }

  /** Marks the first placeholders of a word, with only quotes and other placeholders before them. */
  #markFirst(word: Word): void {
    let { pos } = word;
    for (const place of this.#placesIn(word)) {
      if (!/^[$"']*$/.test(this.#text.slice(pos, place.pos))) return;
      place.isFirst = true;
      pos = place.end;
    }
  }

  /**
   * Checks that variables with values are used only in positions that allow text, and applies the rules of those
   * positions to the values.
   */
  #checkVariables(): void {
    for (const variable of this.#variables.values()) this.#inherit(variable, new Set());
    for (const [name, { places, isFirst }] of this.#variables) {
      const isEvaluated = [...this.#text.matchAll(new RegExp(`\\b${name}\\b`, 'g'))].some(
        ({ index }) => !this.#harmless.some(({ pos, end }) => pos <= index && index + name.length <= end),
      );
      for (const place of places) {
        if (isFirst) place.isFirst = true;
        if (!isEvaluated || place.quoting === undefined) continue;
        place.problem = `in the variable ${name}, which takes no text: let it stand in double quotes in the argument of a program, "$${name}"`;
        place.quoting = undefined;
      }
    }
  }

  #inherit(variable: Variable, seen: Set<Variable>): void {
    seen.add(variable);
    for (const heir of variable.heirs) {
      const to = this.#variable(heir);
      for (const place of variable.places) to.places.add(place);
      if (!seen.has(to)) this.#inherit(to, seen);
    }
  }

  #placesIn({ pos, end }: { readonly pos: number; readonly end: number }): Place[] {
    return this.#places.filter((place) => place.pos >= pos && place.end <= end);
  }
}

const IN_ARITHMETIC = 'in an arithmetic expression, which the shell evaluates';
const IN_QUOTED_HERE_DOC =
  'in a here-document whose end mark is quoted, which the shell leaves as it is; remove the quotes';

/**
 * Returns the variable of an expansion that yields its text or a part of it; `undefined` if the expansion evaluates
 * anything.
 */
function plainName(part: WordPart | SyntaxNode): string | undefined {
  if (part.type === 'SimpleExpansion') return /^\$[A-Za-z_]\w*$/.test(part.text) ? part.text.slice(1) : undefined;
  if (part.type !== 'ParameterExpansion') return undefined;
  const { prefix, index, operation, parameter } = part;
  const isWhole = index === undefined || /^[@*]$/.test(index.value);
  const isPlain = operation === undefined || /^(Default|Remove|Replace|CaseModification)$/.test(operation.type);
  return prefix !== '!' && isWhole && isPlain && !/[$`]/.test(part.text.slice(2)) ? parameter : undefined;
}

/**
 * Whether a command may assign a variable. Programs and the shell read many variables as settings, and some of these
 * run code. A name is safe if it is in lower case, marked as the tool's own, or the name of a placeholder.
 */
function mayAssign(name: string, places: readonly Place[]): boolean {
  if (/_proxy$/.test(name)) return false;
  if (/^[a-z_]\w*$/.test(name) && name === name.toLowerCase()) return true;
  if (/^(TOOL|INPUT|ARG)_/.test(name)) return true;
  return places.some((place) => place.name.toUpperCase() === name) && !SETTING.test(name);
}
const SETTING =
  /^(PATH|HOME|ENV|IFS|SHELL|USER|LANG|TERM|TZ|PAGER|EDITOR|VISUAL|BROWSER|TMPDIR|CDPATH|PS\d|PROMPT_COMMAND|(BASH|LC|LD|PYTHON|NODE|NPM|PERL|RUBY|LUA|JAVA|GIT|SSH|CURL|SSL|LESS|AWK|GREP|TAR|MAKE|PLATFORM).*)$|_(PROXY|OPTIONS|OPTS|PRELOAD|PATH)$/;
