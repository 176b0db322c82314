/**
 * `node evaluate.js <config> <results>`: evaluates cases with promptfoo, whose provider answers what was recorded for each case, and writes pass,
 * score and error of each.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import promptfoo from 'promptfoo';

const [, , configPath, resultsPath] = process.argv;
const { recorded, ...config } = JSON.parse(readFileSync(configPath, 'utf8'));
const answer = async (_, { vars }) => recorded[vars.number];
const evaluation = await promptfoo.evaluate(
  { ...config, prompts: ['{{number}}'], providers: [answer], writeLatestResults: false },
  { cache: false, maxConcurrency: 4, showProgressBar: false },
);
const { results } = await evaluation.toEvaluateSummary();
const verdicts = results.map(({ testIdx, success, score, error, gradingResult }) => {
  return { testIdx, pass: success, score, reason: error ?? gradingResult?.reason };
});
writeFileSync(resultsPath, JSON.stringify(verdicts));
process.exit(0);
