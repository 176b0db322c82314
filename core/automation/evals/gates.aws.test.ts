import { gatesSuite } from '#test/conformance/gates.ts';
import { newTables } from '#test/helpers/aws.ts';

gatesSuite(newTables, 9);
