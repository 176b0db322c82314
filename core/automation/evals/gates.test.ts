import { gatesSuite } from '#test/conformance/gates.ts';

gatesSuite(async () => undefined, 1);
