import { eventsSuite } from '#test/conformance/events.ts';
import { newFedTables } from '#test/helpers/aws.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';

eventsSuite(async () => {
  const deps = memoryDeps();
  return { ...deps, ...(await newFedTables(deps.clock)) };
});
