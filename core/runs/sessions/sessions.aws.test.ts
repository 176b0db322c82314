import { sessionsSuite } from '#test/conformance/sessions.ts';
import { newTables } from '#test/helpers/aws.ts';

sessionsSuite(async (clock) => (await newTables(clock)).runs);
