import { bulkSuite } from '#test/conformance/bulk.ts';

bulkSuite(async () => undefined, 1);
