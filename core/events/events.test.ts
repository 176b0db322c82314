import { eventsSuite } from '#test/conformance/events.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';

eventsSuite(async () => memoryDeps());
