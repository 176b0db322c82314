import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { expect, test } from 'vitest';
import { wholeProgram } from '#cli/program.ts';
import { wordsOf } from './command-line.ts';

/** Returns the commands in a source file, one per line, as in a clone; their other expressions become `X`. */
function commandsIn(source: string): string[] {
  let text = source.replaceAll(/\$\{COMMAND\}/g, 'npx platform');
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replaceAll(/\$\{[^{}]*\}/g, 'X');
  }
  const literals = [...text.matchAll(/(["'`])((?:(?!\1).)*npx platform(?:(?!\1).)*)\1/g)].map(
    ([, , literal]) => literal!,
  );
  return literals.flatMap((literal) => literal.split('\\n')).filter((line) => line.startsWith('npx platform'));
}

/** Returns the errors of a command without running it. */
function problemsOf(program: CommandUnknownOpts, [, , ...words]: readonly string[]): string[] {
  // Global options may be anywhere.
  const given = program.parseOptions([...words]);
  const rest = [...given.operands, ...given.unknown];
  let command = program;
  for (let next: CommandUnknownOpts | undefined = program; next !== undefined; ) {
    command = next;
    next = command.commands.find((each) => each.name() === rest[0]);
    if (next) rest.shift();
  }
  const { operands, unknown } = command.parseOptions(rest);
  const { registeredArguments: places } = command;
  return [
    ...(command.commands.length > 0 ? [`there is no command ${rest[0]}`] : []),
    ...unknown.map((option) => `${command.name()} has no ${option}`),
    ...(operands.length < places.filter(({ required }) => required).length ? ['an argument is missing'] : []),
    ...(operands.length > places.length && !places.at(-1)?.variadic ? ['too many arguments'] : []),
    ...command.options
      .filter((option) => option.mandatory && command.getOptionValue(option.attributeName()) === undefined)
      .map(({ long }) => `${long} is missing`),
  ];
}

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard', 'dashboard/src'], { encoding: 'utf8' });
const shown = files
  .split('\n')
  .filter(Boolean)
  .flatMap((file) => commandsIn(readFileSync(file, 'utf8')).map((command) => [command, file]));

test('pages show commands', () => expect(shown.length).toBeGreaterThan(5));

test.each(shown)('the command line takes %s of %s', async (command) => {
  expect(problemsOf(await wholeProgram(), wordsOf(command!))).toEqual([]);
});

test('faults of commands are found', async () => {
  const program = await wholeProgram();
  for (const bad of ['nothing', 'schedule create', 'schedule create X --crontab Y', 'runs cancel', 'logout X']) {
    expect(problemsOf(program, wordsOf(`npx platform ${bad}`)), bad).not.toEqual([]);
  }
});
