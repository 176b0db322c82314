import { onlineSuite } from '#test/conformance/online.ts';

onlineSuite(async () => undefined, 1);
