import { admissionSuite } from '#test/conformance/admission.ts';
import { newTables } from '#test/helpers/aws.ts';

admissionSuite(async (clock) => (await newTables(clock)).counters);
