import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { parseDocument, YAMLSeq } from 'yaml';
import { UsageError } from '#client/usage-error.ts';
import { hasCode } from '#core/base/errors.ts';
import { plainOutput } from '#core/manifest/evals/check-output.ts';

/** Appends a case to a suite, whose comments stay. Throws UsageError for a run without an input, and for a file that is no suite. */
export async function addCase(
  path: string,
  run: {
    readonly id: string;
    readonly input: unknown;
    readonly output?: unknown;
    readonly description?: string | undefined;
  },
): Promise<void> {
  if (typeof run.input !== 'object' || run.input === null || Array.isArray(run.input)) {
    throw new UsageError(`The input of the run ${run.id} is not stored any more.`);
  }
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return 'tests: []\n';
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  });
  const document = parseDocument(text);
  const tests = document.get('tests');
  if (document.errors.length > 0 || !(tests instanceof YAMLSeq)) {
    throw new UsageError(`${path} is not a suite: it must be YAML with a list "tests".`);
  }
  tests.flow = false;
  tests.add(
    document.createNode({
      description: run.description ?? `run ${run.id.slice(0, 8)}`,
      vars: run.input,
      run: run.id,
      ...('output' in run && { assert: [{ type: 'equals', value: plainOutput(run.output as never) }] }),
    }),
  );
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, document.toString({ lineWidth: 0 }));
}
