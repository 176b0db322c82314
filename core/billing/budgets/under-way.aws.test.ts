import { budgetCommitmentsSuite } from '#test/conformance/budget-commitments.ts';
import { newTables } from '#test/helpers/aws.ts';

budgetCommitmentsSuite(async (clock) => (await newTables(clock)).counters);
