import { runSharesSuite } from '#test/conformance/run-shares.ts';

runSharesSuite(async () => undefined);
