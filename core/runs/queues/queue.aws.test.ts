import { queuesSuite } from '#test/conformance/queues.ts';
import { newTables } from '#test/helpers/aws.ts';

queuesSuite(async (clock) => (await newTables(clock)).runs);
