import { evalsSuite } from '#test/conformance/evals.ts';

evalsSuite(async () => undefined, 1);
