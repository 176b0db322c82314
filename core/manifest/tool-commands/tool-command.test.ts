// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are shell.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { repeated } from '#test/helpers/checks.ts';
import { seedOfRun } from '#test/helpers/seed.ts';
import { fillCommand as fill } from './fill-command.ts';
import { commandProblems, placesIn } from './tool-command.ts';

const fillCommand = (command: string, values: Record<string, Json>) => fill(command, placesIn(command), values);

const folder = mkdtempSync(join(tmpdir(), 'tool-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Defines `show` in test commands, which prints its arguments. */
const shell = (command: string): string => command.replaceAll(/\bshow\b/g, "printf '%s\\0'");

/** Printed between two commands of a shell. */
const NEXT = '\u0001next\u0001';

/**
 * Returns, for each set of values, the arguments that `show` got from the filled command. The folder must stay empty.
 */
function runAll(command: string, all: readonly Record<string, Json>[]): string[][] {
  const commands = all.map((values) => {
    const filled = fillCommand(shell(command), values);
    if ('problem' in filled) throw new Error(filled.problem);
    return `(\n${filled.command}\n) || exit\nprintf %s '${NEXT}'\n`;
  });
  const { stdout, stderr, status } = spawnSync('bash', ['-c', commands.join('')], {
    cwd: folder,
    encoding: 'utf8',
    // If its input is a socket, such as Node's pipes, bash may read the files of a login shell.
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  expect(readdirSync(folder)).toEqual([]);
  const printed = stdout.split(NEXT).slice(0, -1);
  return printed.map((text) => text.split('\0').slice(0, -1));
}

const run = (command: string, values: Record<string, Json>): string[] => runAll(command, [values])[0]!;

const HOSTILE = [
  '',
  ' ',
  'plain',
  'two words',
  '-rf',
  '--help',
  "it's",
  "'; touch x; '",
  '"; touch x; "',
  '"$(touch x)"',
  '$(touch x)',
  '`touch x`',
  '\\`touch x\\`',
  "'$(touch x)'",
  '$HOME ${HOME} $$',
  'a[$(touch x)]',
  '; touch x',
  '| touch x &',
  '\n touch x \n',
  'line\nEOF\ntouch x\nEOF\n',
  '<(touch x) >x',
  '* ? [a-z] {a,b} ~',
  '!! !$ #x',
  '\\',
  '\\\\"',
  "'\"'\"'",
  '{{x}} {{y}}',
  "$& $1 $` $'",
  '\r\t\u001b[31m\u0001\u007f',
  'übergrößenträger 東京 🦜 \u2028',
  '\u00a0\ufeff',
];

/** Commands, and the arguments that `show` must get for a value. */
const CONTEXTS: [command: string, expected: (value: string) => string[]][] = [
  ['show {{x}}', (value) => [value]],
  ['show a{{x}}b', (value) => [`a${value}b`]],
  ["show '{{x}}'", (value) => [value]],
  ["show 'a{{x}} b\\'", (value) => [`a${value} b\\`]],
  ['show "{{x}}"', (value) => [value]],
  ['show "a {{x}}b" {{x}}', (value) => [`a ${value}b`, value]],
  ["show $'\\t{{x}}\\t'", (value) => [`\t${value}\t`]],
  ['show --pattern={{x}} k="{{x}}"', (value) => [`--pattern=${value}`, `k=${value}`]],
  ['show "$(nothing() { :; }; printf %s. {{x}})"', (value) => [`${value}.`]],
  ['show "$(printf %s. "{{x}}")"', (value) => [`${value}.`]],
  ['show "$(printf %s. \'{{x}}\')"', (value) => [`${value}.`]],
  ['show "$(echo "$(printf %s. {{x}})")"', (value) => [`${value}.`]],
  ['show "`printf %s. {{x}}`"', (value) => [`${value}.`]],
  ['v=`printf %s. \'{{x}}\'`; show "$v"', (value) => [`${value}.`]],
  ['v={{x}}; show "$v"', (value) => [value]],
  ['export X="{{x}}"; show "$X"', (value) => [value]],
  ['v=({{x}} "{{x}}"); show "${v[@]}"', (value) => [value, value]],
  ['show "$(cat <<EOF\n{{x}}.\nEOF\n)"', (value) => [`${value}.`]],
  ['show "$(cat <<EOF\n"{{x}}" \'{{x}}\' $(printf %s {{x}}.)\nEOF\n)"', (value) => [`"${value}" '${value}' ${value}.`]],
  ['show "$(cat <<-EOF\n\t{{x}}.\n\tEOF\n)"', (value) => [`${value}.`]],
  ['show "$(cat <<< "{{x}}.")"', (value) => [`${value}.`]],
  ['show "$(cat <(printf %s. {{x}}))"', (value) => [`${value}.`]],
  ['show "$(printf %s. {{x}} | cat | cat)"', (value) => [`${value}.`]],
  ['if [ {{x}} = "{{x}}" ]; then show {{x}}; else show no; fi', (value) => [value]],
  ['if [[ {{x}} == "{{x}}" && a{{x}} =~ {{x}} ]]; then show {{x}}; fi', (value) => [value]],
  ['case {{x}} in {{x}}) show {{x}} ;; *) show no ;; esac', (value) => [value]],
  ['for v in {{x}} "{{x}}"; do show "$v"; done', (value) => [value, value]],
  ['bash -c \'printf %s\\\\0 "$1"\' tool {{x}}', (value) => [value]],
  ['env A=1 bash -c \'printf %s\\\\0 "$@"\' tool {{x}}', (value) => [value]],
  // The # begins a comment.
  ['show {{x}} # why\nshow {{x}}', (value) => [value, value]],
  ['set -u; cd . && (show {{x}}) || { show no; }', (value) => [value]],
];

describe('a value becomes one unchanged argument, and nothing else runs', () => {
  test.each(CONTEXTS)('%s', (command, expected) => {
    expect(commandProblems(shell(command))).toEqual([]);
    const printed = runAll(
      command,
      HOSTILE.map((x) => ({ x })),
    );
    expect(printed).toEqual(HOSTILE.map(expected));
  });

  test('random values in random contexts', () => {
    const pieces = [...HOSTILE, '"', "'", '`', '$(', ')', '${', '}', '\\', '\n', 'EOF\n', '#', '&', '$((', ' ', '-'];
    let seed = seedOfRun();
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    for (let round = 0; round < 150; round++) {
      const value = Array.from({ length: 1 + random(6) }, () => pieces[random(pieces.length)]).join('');
      const [command, expected] = CONTEXTS[random(CONTEXTS.length)]!;
      expect(run(command, { x: value })).toEqual(expected(value));
    }
  });
});

describe('values', () => {
  test.each<[string, Json, string]>([
    ['a number', 1.5, '1.5'],
    ['a boolean', true, 'true'],
    ['an array', ['a', "it's"], `["a","it's"]`],
    ['an object', { a: { b: '$(touch x)' } }, '{"a":{"b":"$(touch x)"}}'],
  ])('%s', (_, value, shown) => {
    expect(run('show {{x}}', { x: value })).toEqual([shown]);
  });

  test('placeholders without a value are empty, also if an object prototype has the name', () => {
    expect(run('show a {{x}} "{{y}}" b{{toString}}', { y: null })).toEqual(['a', '', 'b']);
  });

  test('a placeholder inside a value is not filled in', () => {
    expect(run('show {{x}} {{y}}', { x: '{{y}}', y: '{{x}}' })).toEqual(['{{y}}', '{{x}}']);
  });

  test('the model is told of a NUL character and of a command line that is too long', () => {
    expect(fillCommand('echo {{x}}', { x: 'a\0b' })).toEqual({
      problem: '"x" contains a NUL character, which a command line cannot contain.',
    });
    expect(fillCommand('echo {{x}}', { x: 'a'.repeat(200_000) })).toMatchObject({
      problem: expect.stringContaining('at most 120000 are allowed'),
    });
    expect(run('show "$(printf %s {{x}} | wc -c)"', { x: 'a'.repeat(100_000) })[0]!.trim()).toBe('100000');
  });
});

describe('a text that begins with "-"', () => {
  test.each([
    'grep {{x}} f',
    "grep '{{x}}' f",
    'python3 tool.py "{{x}}"',
    './tool.sh {{x}}',
    'v={{x}}; grep "$v" f',
    'v={{x}}; w="$v"; grep "$w" f',
    'cat {{y}}{{x}}',
    'find {{x}} -type f -print0 2> /dev/null | xargs -0 wc -l | sort -nr',
    'find . -name "*.py" -print0 | xargs -0 -r -n 5 grep -l {{x}}',
    'v={{x}}; find "$v" -print0 | xargs -0 ls',
  ])('is refused where it would be an option: %s', (command) => {
    expect(commandProblems(command)).toEqual([]);
    expect(fillCommand(command, { x: '-rf' })).toEqual({
      problem: expect.stringContaining('"x" begins with "-", which the program would parse as an option'),
    });
    expect(fillCommand(command, { x: 'text' })).toHaveProperty('command');
    expect(fillCommand(command, { x: -5 })).toHaveProperty('command');
  });

  test.each([
    'grep -- {{x}} f',
    'grep -e {{x}} -- f',
    'find . -name {{x}}',
    'curl -d {{x}} https://example.org',
    'jq --arg v {{x}} .',
    'python3 tool.py --name={{x}}',
    'python3 tool.py -- {{x}}',
    'cat <<< {{x}}',
  ])('is accepted where it cannot be one: %s', (command) => {
    expect(fillCommand(command, { x: '-rf' })).toHaveProperty('command');
  });
});

describe('places that are not known to be safe take numbers only', () => {
  test.each([
    ['eval "show {{x}}"', 'in the arguments of eval'],
    ['eval show {{x}}', 'in the arguments of eval'],
    ['source {{x}}', 'in the arguments of source'],
    ['let n={{x}}', 'in the arguments of let'],
    ['declare -i n={{x}}; declare {{x}}=1', 'where the shell accepts no values'],
    ['echo $(({{x}} + 1))', 'in an arithmetic expression'],
    ['(( {{x}} > 1 )) && echo', 'in an arithmetic expression'],
    ['for ((i = 0; i < {{x}}; i++)); do echo; done', 'in an arithmetic expression'],
    ['[[ {{x}} -gt 1 ]]', 'in a comparison of numbers'],
    ['[[ -v {{x}} ]]', 'where a name is expected'],
    ['[ -v {{x}} ]', 'where an operator or a name is expected'],
    ['printf -v {{x}} a', 'in the format of printf'],
    ['printf {{x}} a', 'in the format of printf'],
    ["printf '{{x}}\\n' a", 'in the format of printf'],
    ['command printf {{x}} a', 'in the format of printf'],
    ['command eval {{x}}', 'in the arguments of eval'],
    ['builtin eval {{x}}', 'in the arguments of eval'],
    ['command -p {{x}} a', 'in the arguments of command'],
    ['compgen -W {{x}}', 'in the arguments of compgen'],
    ['BASH_ENV={{x}} bash tool.sh', 'in BASH_ENV, which programs may read as a setting'],
    ['PS4={{x}}; set -x', 'in PS4, which programs may read as a setting'],
    ['v={{x}}; echo $((v + 1))', 'in the variable v, which takes no text'],
    ['v={{x}}; (( $v > 1 )) && echo', 'in the variable v, which takes no text'],
    ['v="a{{x}}"; [[ $v -gt 1 ]]', 'in the variable v, which takes no text'],
    ['v={{x}}; eval "echo $v"', 'in the variable v, which takes no text'],
    ['v={{x}}; bash -c "echo ${v}"', 'in the variable v, which takes no text'],
    ['v={{x}}; python3 -c "print(\'$v\')"', 'in the variable v, which takes no text'],
    ['v={{x}}; $v', 'in the variable v, which takes no text'],
    ['v={{x}}; grep $v f', 'in the variable v, which takes no text'],
    ['v={{x}}; echo "${v@P}"', 'in the variable v, which takes no text'],
    ['v={{x}}; echo "${!v}"', 'in the variable v, which takes no text'],
    ['v={{x}}; a[v]=1', 'in the variable v, which takes no text'],
    ['v={{x}}; let v+1', 'in the variable v, which takes no text'],
    ['v={{x}}; xargs "$v"', 'in the variable v, which takes no text'],
    ['v={{x}}; w="a$v"; eval "$w"', 'in the variable w, which takes no text'],
    ['v={{x}}; echo "$v" | bash', 'in the variable v, which takes no text'],
    ['v={{x}}; w="a$v"; printf "%s" "${w}" | cat | xargs ls', 'in the variable w, which takes no text'],
    ['w="$v"; v={{x}}; unshare $w', 'in the variable w, which takes no text'],
    ['for v in {{x}}; do $v; done', 'in the variable v, which takes no text'],
    ['env {{x}}', 'where the name of the program stands'],
    ['env BASH_ENV={{x}} bash tool.sh', 'in the arguments of env'],
    ['nice {{x}}', 'where the name of the program stands'],
    ['exec {{x}}', 'where the name of the program stands'],
    ['timeout 5 {{x}}', 'where the name of the program stands'],
    ['timeout {{x}} ls', 'in the arguments of timeout'],
    ['echo a | xargs {{x}}', 'in the arguments of xargs'],
    ["flock -c '{{x}}'", 'in the arguments of flock'],
    ['LD_PRELOAD={{x}} ls', 'in LD_PRELOAD, which programs may read as a setting'],
    ['https_proxy={{x}} curl https://example.org', 'in https_proxy, which programs may read as a setting'],
    ['X_OPTIONS={{x}} ls', 'in X_OPTIONS, which programs may read as a setting'],
    ['f() { eval "$1"; }; f {{x}}', 'in the arguments of f'],
    ['set -- {{x}}; eval "$1"', 'in the arguments of set'],
    ['python3 -m timeit {{x}}', 'in the arguments of timeit'],
    ['echo {{x}} | bash', 'in a pipe into something that might run it'],
    ['echo {{x}} | cat | xargs ls', 'in a pipe into something that might run it'],
    ['find {{x}} -print0 | xargs ls', 'in a pipe into something that might run it'],
    ['find {{x}} | xargs -0 ls', 'in a pipe into something that might run it'],
    ['echo {{x}} | xargs -0 ls', 'in a pipe into something that might run it'],
    ['find {{x}} -print0 | cut -zc2- | xargs -0 ls', 'in a pipe into something that might run it'],
    ["find . -printf '{{x}}' -print0 | xargs -0 ls", 'in a pipe into something that might run it'],
    ['find {{x}} -print0 | xargs -0 tar -I', 'in a pipe into something that might run it'],
    ['find {{x}} -print0 | xargs -0 sh', 'in a pipe into something that might run it'],
    ['find {{x}} -print0 | xargs -0 env', 'in a pipe into something that might run it'],
    ['find {{x}} -print0 | xargs -0 -I % ls %', 'in a pipe into something that might run it'],
    ['find . -print0 | xargs -0 {{x}}', 'in the arguments of xargs'],
    ['find . -print0 | xargs -0 -n {{x}} ls', 'in the arguments of xargs'],
    ["find . -print0 | xargs -0 sh -c 'echo {{x}}'", 'in the arguments of xargs'],
    ['echo {{x}} | while read -r v; do eval "$v"; done', 'in a pipe into something that might run it'],
    ['while read -r v; do eval "$v"; done <<< {{x}}', 'in the input of a compound command'],
    ['grep $(echo {{x}}) f', 'in $( ) without quotes'],
    ['grep "$(echo {{x}})" f', 'in $( ) at the beginning of an argument'],
    ['tar --to-command={{x}} -xf a.tar', 'in an argument that tar runs'],
    ['tar -xI {{x}} -f a.tar', 'in an argument that tar runs'],
    ['rg --pre {{x}} a', 'in an argument that rg runs'],
    ['git -c core.pager={{x}} log', 'in an argument that git runs'],
    ["bash -e -c 'grep {{x}} f'", 'in the program text of bash'],
    ["bash --rcfile f -c 'grep {{x}} f'", 'in the program text of bash'],
    ["unshare sh -c 'grep {{x}} f'", 'in the arguments of unshare'],
    ["python3 -Wignore -c 'print({{x}})'", 'in the program text of python3'],
    ["uv run python -c 'print({{x}})'", 'in the program text of python'],
    ["node -r ./a.js -e '{{x}}'", 'in the program text of node'],
    ["perl -e 1 -e '{{x}}'", 'in the program text of perl'],
    ["sed -e 1d -e 's/{{x}}/a/' f", 'in the program text of sed'],
    ["sed f -e 's/{{x}}/a/'", 'in the program text of sed'],
    ['a[{{x}}]=1', 'in a subscript'],
    ['echo "${a:-{{x}}}"', 'in the expansion of a variable'],
    ['echo ${a[{{x}}]}', 'in the expansion of a variable'],
    ['echo ${{x}}', 'in the expansion of a variable'],
    ['echo "\\{{x}}"', 'directly after "\\"'],
    ['echo \\{{x}}', 'directly after "\\"'],
    ['{{x}} --version', 'where the name of the program stands'],
    ['echo | "{{x}}"', 'where the name of the program stands'],
    ['{{x}}() { :; }', 'where a name is expected'],
    ['for {{x}} in a; do :; done', 'where the shell accepts no values'],
    ["bash -c 'grep {{x}} f'", 'in the program text of bash'],
    ['sh -ec "grep {{x}} f"', 'in the program text of sh'],
    ["/bin/bash -o pipefail -lc 'grep {{x}} f'", 'in the program text of bash'],
    ["env A=b timeout 5 bash -c 'grep {{x}} f'", 'in the program text of bash'],
    ["ls | xargs -I % sh -c 'echo % {{x}}'", 'in the arguments of xargs'],
    ["find . -exec sh -c 'echo {{x}}' \\;", 'in an argument that find runs'],
    ['bash <<EOF\necho {{x}}\nEOF', 'in the program text of bash'],
    ['bash <<< "{{x}}"', 'in the program text of bash'],
    ['python3 - <<EOF\nprint("{{x}}")\nEOF', 'in the program text of python3'],
    ['python3 -c "print(\'{{x}}\')"', 'in the program text of python3'],
    ['node -e "{{x}}"', 'in the program text of node'],
    ["perl -ne'print {{x}}' f", 'in the program text of perl'],
    ["awk '/{{x}}/' f", 'in the program text of awk'],
    ['sed "s/a/{{x}}/" f', 'in the program text of sed'],
    ["sed -n -e '{{x}}p' f", 'in the program text of sed'],
    ["cat <<'EOF'\n{{x}}\nEOF", 'in a here-document whose end mark is quoted'],
    ['cat <<{{x}}\nEOF', 'where the shell accepts no values'],
    ['echo {a,{{x}}}', 'in a pattern of the shell'],
    ['echo a # {{x}}', 'where the shell accepts no values'],
    ['echo "`a \\"{{x}}\\"`"', 'where the shell accepts no values'],
    ['if {{x}}', 'in a command that bash cannot read'],
    ["echo '{{x}}", 'in a command that bash cannot read'],
  ])('%s', (command, problem) => {
    expect(commandProblems(command)[0]).toEqual({ name: 'x', problem: expect.stringContaining(problem) });
    expect(fillCommand(command, { x: 'text' })).toEqual({ problem: expect.stringContaining(problem) });
    expect(fillCommand(command, { x: 5 })).toEqual({ command: command.replaceAll('{{x}}', '5') });
    expect(fillCommand(command, {})).toEqual({ command: command.replaceAll('{{x}}', '') });
  });

  test.each([
    ["awk -v p={{x}} '$0 ~ p' {{f}}"],
    ['python3 tool.py -c {{x}} -- {{f}}'],
    ['python3 -X utf8 tool.py <<EOF\n{{x}}\nEOF'],
    ["python3 -c 'import sys; print(sys.argv)' {{x}}"],
    ["sed -n -e 1p {{f}}; grep -e '{{x}}' node -e {{f}}"],
    ['exec python3 /home/user/helpers/platform_call.py acme/fetch@v1'],
    ['TOOL_V={{x}} bash -c \'echo "$TOOL_V"\' && X={{x}} python3 -c \'import os; print(os.environ["X"])\''],
    ['v={{x}}; echo "${v:-none}" "${#v}"; [ -n {{x}} ] && [ "$v" = {{f}} ]'],
    ['find . -name {{x}} -newer {{f}}; bash -e tool.sh {{x}}; command grep {{x}} {{f}}; printf -- "%s" {{x}}'],
    ['curl -s "https://example.org/?q={{x}}" | jq \'.[] | select(.name == "a")\' > {{f}}'],
  ])('any value is accepted in: %s', (command) => {
    expect(commandProblems(command)).toEqual([]);
  });

  test('an operator of test', () => {
    expect(commandProblems('[ {{x}} {{f}} ]')).toEqual([
      { name: 'x', problem: 'where an operator or a name is expected' },
    ]);
  });

  test.each(['$(', '${', '((', 'f() ', '`', '{'])('thousands of %s are refused without being parsed', (opening) => {
    const [found] = commandProblems(`echo {{x}} ${opening.repeat(9000 / opening.length)}`);
    expect(found!.problem).toContain('brackets');
  });

  test('numbers are filled in unchanged', () => {
    expect(run("show $(({{x}} * 2)) \"$(printf 'a\\nb\\nc\\n' | sed -n '{{x}}p')\"", { x: 2 })).toEqual(['4', 'b']);
  });
});

test('a value is written and quoted once, however often the command names it', () => {
  const command = `echo ${'{{x}} '.repeat(240)}`;
  let written = 0;
  const x = {
    toJSON() {
      written += 1;
      return repeated(60_000, (i) => `it's ${i}`);
    },
  };
  expect(fillCommand(command, { x: x as unknown as Json })).toEqual({
    problem: expect.stringContaining('at most 120000 are allowed'),
  });
  expect(written).toBe(1);
});
