// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are shell.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { Json } from '#core/base/json.ts';
import { commandProblems, fillCommand } from './tool-command.ts';

const folder = mkdtempSync(join(tmpdir(), 'tool-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SHOW = `show() { printf '%s\\0' "$@"; }\n`;

/** The arguments that the function `show` got from the filled command; the folder must stay empty. */
function run(command: string, values: Record<string, Json>): string[] {
  const filled = fillCommand(command, values);
  if ('problem' in filled) throw new Error(filled.problem);
  const { stdout, stderr, status } = spawnSync('bash', ['-c', SHOW + filled.command], {
    cwd: folder,
    encoding: 'utf8',
    // With a socket as input, such as Node's pipes, bash may read the files of a login shell.
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
  expect(readdirSync(folder)).toEqual([]);
  return stdout.split('\0').slice(0, -1);
}

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
  ['show "$(show_nothing() { :; }; printf %s. {{x}})"', (value) => [`${value}.`]],
  ['show "$(printf %s. "{{x}}")"', (value) => [`${value}.`]],
  ['show "$(printf %s. \'{{x}}\')"', (value) => [`${value}.`]],
  ['show "$(echo "$(printf %s. {{x}})")"', (value) => [`${value}.`]],
  ['show "`printf %s. {{x}}`"', (value) => [`${value}.`]],
  ['v=`printf %s. \'{{x}}\'`; show "$v"', (value) => [`${value}.`]],
  ['v={{x}}; show "$v"', (value) => [value]],
  ['export V="{{x}}"; show "$V"', (value) => [value]],
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
  ['f() { show "$1"; }; f {{x}}', (value) => [value]],
  ['bash -c \'printf %s\\\\0 "$1"\' tool {{x}}', (value) => [value]],
  ['env A=1 bash -c \'printf %s\\\\0 "$@"\' tool {{x}}', (value) => [value]],
  // This is not the quote of a comment.
  ['show {{x}} # why\nshow {{x}}', (value) => [value, value]],
  ['set -u; cd . && (show {{x}}) || { show no; }', (value) => [value]],
];

describe('a value becomes one unchanged argument, and nothing else runs', () => {
  test.each(CONTEXTS)('%s', (command, expected) => {
    expect(commandProblems(command)).toEqual([]);
    for (const value of HOSTILE) expect(run(command, { x: value })).toEqual(expected(value));
  });

  test('random values in random contexts', () => {
    const pieces = [...HOSTILE, '"', "'", '`', '$(', ')', '${', '}', '\\', '\n', 'EOF\n', '#', '&', '$((', ' ', '-'];
    // Each run has another seed, which a failure shows.
    let seed = Date.now() % 2 ** 31;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const started = seed;
    for (let round = 0; round < 150; round++) {
      const value = Array.from({ length: 1 + random(6) }, () => pieces[random(pieces.length)]).join('');
      const [command, expected] = CONTEXTS[random(CONTEXTS.length)]!;
      expect(run(command, { x: value }), `seed ${started}`).toEqual(expected(value));
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
    expect(fillCommand('show {{x}}', { x: 'a\0b' })).toEqual({
      problem: '"x" holds a NUL character, which no command line can hold.',
    });
    expect(fillCommand('show {{x}}', { x: 'a'.repeat(200_000) })).toMatchObject({
      problem: expect.stringContaining('at most 120000 fit'),
    });
    expect(run('show "$(printf %s {{x}} | wc -c)"', { x: 'a'.repeat(100_000) })[0]!.trim()).toBe('100000');
  });
});

describe('places where an expanded text would be parsed again take numbers only', () => {
  test.each([
    ['eval "show {{x}}"', 'in the arguments of eval'],
    ['eval show {{x}}', 'in the arguments of eval'],
    ['source {{x}}', 'in the arguments of source'],
    ['let n={{x}}', 'in the arguments of let'],
    ['declare -i n={{x}}; declare {{x}}=1', 'in the arguments of declare'],
    ['echo $(({{x}} + 1))', 'in an arithmetic expression'],
    ['(( {{x}} > 1 )) && echo', 'in an arithmetic expression'],
    ['for ((i = 0; i < {{x}}; i++)); do echo; done', 'in an arithmetic expression'],
    ['[[ {{x}} -gt 1 ]]', 'in a comparison of numbers'],
    ['[[ -v {{x}} ]]', 'where a name is expected'],
    ['[ -v {{x}} ]', 'where a name is expected'],
    ['printf -v {{x}} a', 'where a name is expected'],
    ['printf {{x}} a', 'in the format of printf'],
    ["printf '{{x}}\\n' a", 'in the format of printf'],
    ['command printf {{x}} a', 'in the format of printf'],
    ['command eval {{x}}', 'in the arguments of eval'],
    ['builtin eval {{x}}', 'in the arguments of eval'],
    ['command -p {{x}} a', 'where the name of the program stands'],
    ['compgen -W {{x}}', 'in the arguments of compgen'],
    ['BASH_ENV={{x}} bash tool.sh', 'in BASH_ENV, which the shell evaluates'],
    ['PS4={{x}}; set -x', 'in PS4, which the shell evaluates'],
    ['v={{x}}; echo $((v + 1))', 'in the variable v, which stands in an arithmetic expression'],
    ['v={{x}}; (( $v > 1 )) && echo', 'in the variable v, which stands in an arithmetic expression'],
    ['v="a{{x}}"; [[ $v -gt 1 ]]', 'in the variable v, which stands in a comparison of numbers'],
    ['v={{x}}; eval "echo $v"', 'in the variable v, which stands in the arguments of eval'],
    ['v={{x}}; bash -c "echo ${v}"', 'in the variable v, which stands in the program text of bash'],
    ['v={{x}}; python3 -c "print(\'$v\')"', 'in the variable v, which stands in the program text of python3'],
    ['v={{x}}; $v', 'in the variable v, which stands where the name of the program stands'],
    ["bash -e -c 'grep {{x}} f'", 'in the program text of bash'],
    ["bash --rcfile f -c 'grep {{x}} f'", 'in the program text of bash'],
    ["unshare sh -c 'grep {{x}} f'", 'in the program text of sh'],
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
    ['for {{x}} in a; do :; done', 'where a name is expected'],
    ["bash -c 'grep {{x}} f'", 'in the program text of bash'],
    ['sh -ec "grep {{x}} f"', 'in the program text of sh'],
    ["/bin/bash -o pipefail -lc 'grep {{x}} f'", 'in the program text of bash'],
    ["env A=b timeout 5 bash -c 'grep {{x}} f'", 'in the program text of bash'],
    ["ls | xargs -I % sh -c 'echo % {{x}}'", 'in the program text of sh'],
    ["find . -exec sh -c 'echo {{x}}' \\;", 'in the program text of sh'],
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
    ['cat <<{{x}}\nEOF', 'where the shell takes no values'],
    ['echo {a,{{x}}}', 'in a pattern of the shell'],
    ['echo a # {{x}}', 'where the shell takes no values'],
    ['echo "`a \\"{{x}}\\"`"', 'where the shell takes no values'],
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
    ['V={{x}} bash -c \'echo "$V"\' && V={{x}} python3 -c \'import os; print(os.environ["V"])\''],
    ['v={{x}}; echo "${v:-none}" "${#v}"; [ -n {{x}} ] && [ "$v" = {{f}} ]'],
    ['find . -name {{x}} -newer {{f}}; bash -e tool.sh {{x}}; command grep {{x}} {{f}}; printf -- "%s" {{x}}'],
    ['curl -s "https://example.org/?q={{x}}" | jq \'.[] | select(.name == "a")\' > {{f}}'],
  ])('any value is accepted in: %s', (command) => {
    expect(commandProblems(command)).toEqual([]);
  });

  test('an operator of test', () => {
    expect(commandProblems('[ {{x}} {{f}} ]')).toEqual([{ name: 'x', problem: 'where an operator is expected' }]);
  });

  test.each(['$(', '${', '((', 'f() ', '`', '{'])('thousands of %s are refused at once', (opening) => {
    const startedAt = performance.now();
    const [found] = commandProblems(`echo {{x}} ${opening.repeat(9000 / opening.length)}`);
    expect(found!.problem).toContain('brackets');
    expect(performance.now() - startedAt).toBeLessThan(1000);
  });

  test('numbers are filled in unchanged', () => {
    expect(run("show $(({{x}} * 2)) \"$(printf 'a\\nb\\nc\\n' | sed -n '{{x}}p')\"", { x: 2 })).toEqual(['4', 'b']);
  });
});
