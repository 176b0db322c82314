import type { Word } from 'unbash';

/**
 * How programs use their arguments and their input, as far as custom tools need it
 * (`docs/interface/loops.md#custom-tools`). Arguments that are not known to be data allow no text.
 */
export interface Usage {
  /** Arguments that allow text; `no option`: only text that does not begin with "-". */
  readonly takes: ReadonlyMap<Word, 'text' | 'no option'>;
  /** Arguments that are programs themselves. */
  readonly programs: ReadonlySet<Word>;
  /** Whether the input is data, not a program to run. */
  readonly readsData: boolean;
  /** Whether the input is names that end with NUL, each of which becomes an argument that must be no option. */
  readonly readsNames?: true;
  /** Whether the output is such names. */
  readonly printsNames?: boolean;
  /** Why the other arguments allow no text, to complete "{{name}} stands ...". */
  readonly problem: string;
}

/** Programs that treat all arguments as data, except for the options in {@link RUNNING_OPTIONS}. */
const DATA_PROGRAMS = new Set(
  `: [ ag b2sum bandit base32 base64 basename black cat cd chmod cksum cmp column comm cp curl cut date df diff dig
  dirname du echo egrep eslint exiftool expand expr false ffmpeg ffprobe fgrep file find flake8 fmt fold gh git grep
  gunzip gzip head hexdump host html2text identify isort join jq ln ls md5sum mkdir mktemp mv mypy nl nslookup od
  pandoc paste pdfinfo pdftoppm pdftotext prettier printf pwd pylint pytest readlink realpath rev rg rm rmdir ruff
  seq sha1sum sha256sum sha512sum shellcheck sleep sort split stat strings tac tail tar tee tesseract test touch tr
  tree true truncate tsc uniq unzip uuidgen wc wget whois xmllint xxd xz yamllint yq yt-dlp zcat zgrep zip`.split(
    /\s+/,
  ),
);

/** Options whose value is executed, attached or as the next word. */
const RUNNING_OPTIONS: Readonly<Record<string, RegExp>> = {
  ag: /^--pager/,
  find: /^-(exec|execdir|ok|okdir)$/,
  git: /^(-c|-u|-x|--config|--upload-pack|--receive-pack|--exec)/,
  pandoc: /^(-F|-L|--filter|--lua-filter|--pdf-engine)/,
  rg: /^--(pre|hostname-bin)/,
  sort: /^--compress-program/,
  split: /^--filter/,
  tar: /^(-?[A-Za-z]*[IF]|--(use-compress-program|to-command|checkpoint-action|rsh-command|info-script|new-volume-script))/,
  wget: /^(-e|--execute|--use-askpass)/,
  'yt-dlp': /^--(exec|downloader|external-downloader)/,
  zip: /^(-TT|--unzip-command)/,
};

/** Options whose value is the next word, whatever it begins with. */
const OPTIONS_WITH_DATA: Readonly<Record<string, RegExp>> = {
  curl: /^(-[dHXuAoe]|--(data(-raw|-binary|-urlencode)?|header|request|user|user-agent|output|referer))$/,
  egrep: /^(-[A-Za-z]*e|--regexp)$/,
  fgrep: /^(-[A-Za-z]*e|--regexp)$/,
  find: /^-(i?name|i?path|i?regex|i?wholename|newer|user|group)$/,
  grep: /^(-[A-Za-z]*e|--regexp)$/,
  rg: /^(-[A-Za-z]*e|--regexp)$/,
};

/**
 * Programs that run another program given as arguments; `skip` is the number of words before it, each without a value.
 */
const STARTERS: Readonly<Record<string, (rest: readonly Word[]) => number>> = {
  builtin: () => 0,
  command: () => 0,
  env: (rest) => firstIndex(rest, ({ value }) => !/^\w+=/.test(value)),
  exec: () => 0,
  nice: (rest) => (rest[0]?.value === '-n' ? 2 : 0),
  nohup: () => 0,
  npx: () => 0,
  pipenv: (rest) => (rest[0]?.value === 'run' ? 1 : 0),
  poetry: (rest) => (rest[0]?.value === 'run' ? 1 : 0),
  setsid: () => 0,
  timeout: () => 1,
  uv: (rest) => (rest[0]?.value === 'run' ? 1 : 0),
};

const SYSTEM_FOLDER = /^\/(usr\/)?(local\/)?s?bin\//;
const SHELL = /^(ba|da|k|z|a)?sh$/;
const PYTHON = /^(python|pypy)[\d.]*$/;
const INTERPRETER = /^(node(js)?|deno|bun|tsx|ts-node|perl|ruby|php|lua|Rscript|java)$/;
const FILTER = /^([gmn]?awk|g?sed)$/;

const PROGRAM_FLAG = /^(-[A-Za-z]*[ceEpr]|--eval|--print|--command)$/;
/** Options whose value is the next word. */
const FLAG_WITH_VALUE = /^([-+][WXoOIM]|-jar|-cp|--rcfile|--init-file)$/;
/** Python modules that run their arguments. */
const RUNNING_MODULE = /^(timeit|pdb|code|trace|cProfile|profile|runpy|idlelib.*)$/;
const FILTER_PROGRAM_FLAG = /^(-[A-Za-z]*e|--expression|--source)$/;
const FILTER_FLAG_WITH_VALUE = /^-([vF]|-assign)$/;

/** Returns how the program of a simple command uses its arguments. `holds` returns whether a word has a placeholder. */
export function usageOf(words: readonly Word[], holds: (word: Word) => boolean): Usage {
  const [name, ...rest] = words;
  if (name === undefined || holds(name) || !isLiteral(name)) {
    return nothing('where the name of the program stands; name the program, and let values be its arguments');
  }
  const { value } = name;
  const isOwn = value.includes('/') && !SYSTEM_FOLDER.test(value);
  if (isOwn) return { ...nothing(''), takes: new Map(afterOptions(rest)), readsData: true };
  const program = value.slice(value.lastIndexOf('/') + 1);
  const skip = STARTERS[program]?.(rest);
  if (skip !== undefined && !rest.slice(0, skip).some(holds) && !/^-/.test(rest[skip]?.value ?? '')) {
    return usageOf(rest.slice(skip), holds);
  }
  if (program === 'xargs') {
    const usage = xargsUsage(rest, holds);
    if (usage !== undefined) return usage;
  }
  if (FILTER.test(program)) return filterUsage(program, rest);
  if (SHELL.test(program) || PYTHON.test(program) || INTERPRETER.test(program)) return interpreterUsage(program, rest);
  if (program === 'printf') return printfUsage(rest);
  if (program === 'test' || program === '[') return testUsage(rest, holds);
  if (DATA_PROGRAMS.has(program)) return dataUsage(program, rest);
  return nothing(
    `in the arguments of ${program}, which might run them; call it from a script of your own, such as ./${program}.sh {{name}}`,
  );
}

const nothing = (problem: string): Usage => ({ takes: new Map(), programs: new Set(), readsData: false, problem });

const firstIndex = (words: readonly Word[], is: (word: Word) => boolean): number => {
  const index = words.findIndex(is);
  return index < 0 ? words.length : index;
};

/** Whether the word contains no expansions. */
const isLiteral = ({ parts = [] }: Word): boolean =>
  parts.every(
    (part) =>
      part.type === 'Literal' ||
      part.type === 'SingleQuoted' ||
      (part.type === 'DoubleQuoted' && part.parts.every(({ type }) => type === 'Literal')),
  );

/** Words after "--" are never options, whatever they begin with. */
function afterOptions(words: readonly Word[]): [Word, 'text' | 'no option'][] {
  const end = firstIndex(words, ({ value }) => value === '--');
  return words.map((word, index) => [word, index > end ? 'text' : 'no option']);
}

function dataUsage(program: string, args: readonly Word[]): Usage {
  const runs = RUNNING_OPTIONS[program];
  const before = (index: number): string => args[index - 1]?.value ?? '';
  const isData = (index: number): boolean =>
    program === 'echo' ||
    OPTIONS_WITH_DATA[program]?.test(before(index)) === true ||
    (program === 'jq' && /^--arg(json)?$/.test(before(index - 1)));
  const end = program === 'find' ? firstIndex(args, ({ value }) => runs!.test(value)) : args.length;
  const takes = afterOptions(args.slice(0, end))
    .map(([word, kind], index) => [word, isData(index) ? 'text' : kind] as const)
    .filter(([{ value }], index) => !runs?.test(value) && !runs?.test(before(index)));
  // The names begin with a folder that the command names, or with ".".
  const printsNames =
    program === 'find' && args.at(-1)?.value === '-print0' && !args.some(({ value }) => FIND_PRINTS_MORE.test(value));
  return { ...nothing(`in an argument that ${program} runs`), takes: new Map(takes), readsData: true, printsNames };
}
const FIND_PRINTS_MORE = /^-(printf|ls|exec|execdir|ok|okdir|files0-from)$/;

const XARGS_FLAG = /^(-[0rt]+|--null|--no-run-if-empty|-[nP]\d+)$/;
const XARGS_NUMBER = /^-[nP]$/;
/** Programs whose arguments are data wherever they stand, except for options. */
const takesNames = (program: string): boolean =>
  DATA_PROGRAMS.has(program) && RUNNING_OPTIONS[program] === undefined && !/^(printf|test|\[|:)$/.test(program);

/**
 * Returns how xargs uses its arguments if it ends names with NUL only, and starts a program that takes names. Without
 * `-0` it reads quotes in the names, and with `-I` the name may be part of another argument.
 */
function xargsUsage(args: readonly Word[], holds: (word: Word) => boolean): Usage | undefined {
  let start = 0;
  let endsWithNul = false;
  for (let flag = args[0]; flag !== undefined && /^-/.test(flag.value); flag = args[start]) {
    const hasNumber = XARGS_NUMBER.test(flag.value) && /^\d+$/.test(args[start + 1]?.value ?? '');
    if (!XARGS_FLAG.test(flag.value) && !hasNumber) return undefined;
    if (/^-[rt]*0|^--null$/.test(flag.value)) endsWithNul = true;
    start += hasNumber ? 2 : 1;
  }
  const program = args[start];
  if (!endsWithNul || program === undefined || holds(program) || !isLiteral(program)) return undefined;
  if (!takesNames(program.value.replace(SYSTEM_FOLDER, ''))) return undefined;
  return { ...usageOf(args.slice(start), holds), readsData: false, readsNames: true };
}

/** The shell can evaluate the format of printf, and `-v` takes a name. */
function printfUsage(args: readonly Word[]): Usage {
  const format = args[0]?.value === '--' ? 1 : 0;
  const problem = 'in the format of printf; use %s there, and let the value follow it';
  if (/^-/.test(args[format]?.value ?? '')) return nothing(problem);
  return {
    ...nothing(problem),
    takes: new Map(args.slice(format + 1).map((word) => [word, 'text'] as const)),
    readsData: true,
  };
}

/** The first of two values could be an operator that takes a name, whose subscript the shell evaluates. */
function testUsage(args: readonly Word[], holds: (word: Word) => boolean): Usage {
  const takes = args.filter((word, index) => {
    const isName = /^-[vR]$/.test(args[index - 1]?.value ?? '');
    const next = args[index + 1];
    return !isName && !(next && holds(word) && holds(next));
  });
  return {
    ...nothing('where an operator or a name is expected'),
    takes: new Map(takes.map((word) => [word, 'text'] as const)),
    readsData: true,
  };
}

/** Text is allowed after the file, the module or the code of the program. */
function interpreterUsage(name: string, args: readonly Word[]): Usage {
  const problem = `in the program text of ${name}; let the value be an argument or a variable of that program`;
  const programs = new Set<Word>();
  const following: Word[] = [];
  const usage = (rest: readonly Word[]): Usage => ({
    takes: new Map(afterOptions([...following, ...rest])),
    programs,
    readsData: true,
    problem,
  });
  for (let index = 0; index < args.length; index++) {
    const word = args[index]!;
    const next = args[index + 1];
    if (PYTHON.test(name) && word.value === '-m') {
      return next && isLiteral(next) && !RUNNING_MODULE.test(next.value)
        ? usage(args.slice(index + 2))
        : nothing(`in the arguments of ${next?.value ?? name}, which might run them`);
    }
    if (PROGRAM_FLAG.test(word.value) && next) {
      // This flag has no value, as in bash -e -c TEXT.
      if (/^-/.test(next.value)) continue;
      programs.add(next);
      index++;
      // These interpreters accept no options after the code; others may accept more code.
      if (SHELL.test(name) || PYTHON.test(name)) {
        const takes = new Map(args.slice(index + 1).map((each) => [each, 'text'] as const));
        return { ...usage([]), takes };
      }
    } else if (FLAG_WITH_VALUE.test(word.value)) index++;
    else if (word.value === '-' && programs.size === 0) return nothing(problem);
    else if (word.value === '--') return usage(args.slice(index));
    else if (!/^[-+]/.test(word.value)) {
      if (programs.size > 0) following.push(word);
      else if (isLiteral(word)) return usage(args.slice(index + 1 + (isSubcommand(name, word) ? 1 : 0)));
      else return nothing(problem);
    }
  }
  return programs.size > 0 ? usage([]) : nothing(problem);
}

const isSubcommand = (name: string, { value }: Word): boolean => /^(deno|bun)$/.test(name) && value === 'run';

/** Code of awk and sed is in the values of their options or, without such options, in the first argument. */
function filterUsage(name: string, args: readonly Word[]): Usage {
  const programs = new Set<Word>();
  const others: Word[] = [];
  let hasProgram = args.some(({ value }) => FILTER_PROGRAM_FLAG.test(value) || /^-f/.test(value));
  for (let index = 0; index < args.length; index++) {
    const word = args[index]!;
    const next = args[index + 1];
    if (FILTER_PROGRAM_FLAG.test(word.value) && next) {
      programs.add(next);
      index++;
    } else if (FILTER_FLAG_WITH_VALUE.test(word.value) && next) {
      others.push(next);
      index++;
    } else if (!hasProgram && !/^[-+]/.test(word.value)) {
      hasProgram = true;
      programs.add(word);
    } else if (!/^-[A-Za-z]*[ef]|^--(expression|source|file|load|include)/.test(word.value)) others.push(word);
  }
  return {
    takes: new Map(afterOptions(others)),
    programs,
    readsData: true,
    problem: `in the program text of ${name}; let the value be an argument or a variable of that program`,
  };
}
