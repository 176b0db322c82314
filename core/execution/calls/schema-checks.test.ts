import { expect, test } from 'vitest';
import { requireCheckTime } from '#core/accounts/limits/cpu-budget.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { newWorkspace, repeated, withLittleTime } from '#test/helpers/checks.ts';
import { checkOutput, ownerOfChecks } from './schema-checks.ts';

/**
 * An agent whose schema is new to every thread, and so takes more than the 10 ms that workspaces have at once in this
 * test.
 */
function agentOf({ id, slug }: { readonly id: string; readonly slug: string }): AgentVersion {
  const properties = repeated(400, (i) => [`${slug}_${i}`, { pattern: `^[a-z]{${i}}$` }]);
  const definition = { output_schema: { properties: Object.fromEntries(properties) } };
  return { workspaceId: id, orgSlug: slug, definition } as unknown as AgentVersion;
}

test("an author's output schema takes time of its own in runs of others", async () => {
  const deps = withLittleTime('free');
  const [author, caller] = [newWorkspace('free'), newWorkspace('free')];
  const agent = agentOf(author);
  await checkOutput(deps, caller, agent, {});
  for (const workspace of [author, caller]) expect(() => requireCheckTime(deps, workspace)).not.toThrow();
  expect(() => requireCheckTime(deps, ownerOfChecks(agent, caller))).toThrow('has used up its time');
  // Callers of this author's agents get only a warning.
  expect(await checkOutput(deps, newWorkspace('free'), agent, {})).toEqual([
    { code: 'VALIDATION_SKIPPED', message: expect.stringContaining(`"${author.slug}" has used up its time`) },
  ]);
});

test("an author's output schema takes the author's time in the author's runs", async () => {
  const deps = withLittleTime();
  const author = newWorkspace('free');
  await checkOutput(deps, author, agentOf(author), {});
  expect(() => requireCheckTime(deps, author)).toThrow('has used up its time');
});
