import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { parse, stringify } from 'yaml';
import { UsageError } from '#client/usage-error.ts';
import { fromOpenAi } from '../evals/import-openai.ts';
import { fromPromptfoo, isBody } from '../evals/import-promptfoo.ts';
import type { Configure } from '../shared/cli.ts';
import { printable } from '../shared/output.ts';

const importEvals: Configure = (command, cli) => {
  command
    .argument('<file>', "promptfoo's configuration (YAML or JSON), or lines of JSON that OpenAI exported")
    .option('--criteria <file>', "For OpenAI: the evaluation's object, with testing_criteria")
    .option('--input <members...>', 'For OpenAI: members of the items that the agent gets')
    .option('--judge <model>', 'Model that judges rubrics, such as anthropic/claude-haiku-4-5')
    .option('--out <folder>', 'Folder for the suite', 'evals')
    .addHelpText('after', '\nExample:\n  $ platform import-evals promptfooconfig.yaml')
    .action(async (file, { criteria, input: members, judge, out }) => {
      const text = await read(resolve(cli.host.cwd, file));
      const isLines = /\.jsonl$/i.test(file);
      const extra = criteria === undefined ? [] : [objectIn(criteria, await read(resolve(cli.host.cwd, criteria)))];
      const { suite, left } = isLines
        ? fromOpenAi([...linesOf(file, text), ...extra], { judge, members })
        : fromPromptfoo(objectIn(file, text), judge);
      if ((suite.tests as readonly unknown[]).length === 0)
        throw new UsageError(`${file} has no cases that can be taken over.`);
      const name = join(out, `${basename(file).replace(/\.[^.]+$/, '')}.yaml`);
      const path = resolve(cli.host.cwd, name);
      if (existsSync(path)) throw new UsageError(`${name} exists. Remove it, or choose another folder with --out.`);
      await mkdir(resolve(cli.host.cwd, out), { recursive: true });
      await writeFile(path, stringify(suite, { lineWidth: 0 }));
      const result = { file: name, cases: (suite.tests as readonly unknown[]).length, left };
      cli.output.result(result, ({ cases }) =>
        [
          `${name} has ${cases} cases.`,
          ...(left.length > 0 ? ['Not taken over as it was:', ...left.map((each) => `- ${printable(each)}`)] : []),
        ].join('\n'),
      );
    });
};

async function read(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

function objectIn(file: string, text: string): { readonly [member: string]: unknown } {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw new UsageError(`${file} is not valid YAML: ${(error as Error).message.split('\n')[0]}`);
  }
  if (isBody(value)) return value;
  throw new UsageError(`${file} is not an object.`);
}

const linesOf = (file: string, text: string): unknown[] =>
  text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      return [JSON.parse(line)];
    } catch {
      throw new UsageError(`${file}: line ${index + 1} is not JSON.`);
    }
  });

export default importEvals;
