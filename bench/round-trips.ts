import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseLocalConfig } from '#local/config.ts';
import { localDeps } from '#local/deps.ts';
import { countPromptCall } from '#test/helpers/round-trips.ts';
import { ROOT, type Row, startProgram } from './harness.ts';

/**
 * Counts the table operations of a prompt call, which are network requests on AWS; `test/round-trips.test.ts` bounds
 * them.
 */
export async function benchRoundTrips(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bench-'));
  const llm = await startProgram(join(ROOT, 'bench/llm-server.ts'));
  const config = parseLocalConfig({
    PLATFORM_DATA: folder,
    PLATFORM_SANDBOX_PRESTART: '0',
    PLATFORM_ANTHROPIC_URL: `http://127.0.0.1:${llm.port}/v1`,
  });
  const deps = await localDeps(config, config);
  try {
    const { items, stagesBeforeLlm, operations, readUnits, writeUnits } = await countPromptCall(deps);
    return [
      {
        what: 'item operations of a prompt call with an exact version',
        ours: operations.join(', '),
        beside: '-',
        result: `${items}, ${stagesBeforeLlm} in sequence before the model is asked`,
        bound: 'at most 6, at most 4',
        isMet: items <= 6 && stagesBeforeLlm <= 4,
      },
      {
        what: 'units of DynamoDB of the same call, by sizes of items',
        ours: `${writeUnits} write, ${readUnits} read`,
        beside: '-',
        result: `${writeUnits}, ${readUnits}`,
        bound: 'at most 5, at most 2',
        isMet: writeUnits <= 5 && readUnits <= 2,
      },
    ];
  } finally {
    await deps.close();
    llm.process.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}
