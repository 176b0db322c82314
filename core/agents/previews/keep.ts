import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { retryOnConflict } from '#core/ports/retry-on-conflict.ts';
import { absent, allOf, exists } from '#core/ports/table.ts';
import { changeHead, readHead, versionKey } from '../record.ts';
import { previewEnd, previewIndex } from './preview.ts';

/** Lets a preview end later after a publish without a change, as a publish with a change would. */
export async function keepPreview({ main, clock }: Pick<Deps, 'main' | 'clock'>, version: AgentVersion): Promise<void> {
  const { workspaceId, name } = version;
  const preview = version.preview!.name;
  await retryOnConflict(clock, `the agent ${name}`, async () => {
    const head = await readHead({ main }, workspaceId, name);
    // Another publish has moved the name, or the preview has ended.
    if (head.previews[preview]?.version !== version.version) return true;
    const ends_at = previewEnd(clock.now());
    const previews = { ...head.previews, [preview]: { version: version.version, ends_at } };
    const { ok } = await main.transact([
      changeHead(version, head, { previews }, previewIndex(version, previews)),
      {
        op: 'update',
        key: versionKey(version),
        changes: { set: { preview: { name: preview, ends_at } } },
        condition: allOf(exists(), absent('deleted_at')),
      },
    ]);
    return ok || undefined;
  });
}
