import { parseSync, Visitor } from 'oxc-parser';
import { analyse } from 'scslre';

/** Regular expression that takes more than linear time for some text. */
export interface SlowExpression {
  readonly file: string;
  readonly line: number;
  readonly source: string;
}

/**
 * The regular expressions of a file for which the time of a search grows faster than the text: two quantifiers without
 * a limit that can take the same characters, or one that a search begins anew at each character. Expressions that are
 * made from strings are not seen.
 */
export function slowExpressions(file: string, text: string): SlowExpression[] {
  const found: SlowExpression[] = [];
  const visitor = new Visitor({
    Literal(node) {
      if (!('regex' in node)) return;
      const { pattern, flags } = node.regex;
      const { reports } = analyse({ source: pattern, flags }, { reportTypes: { Move: true, Self: true, Trade: true } });
      if (reports.length > 0) found.push({ file, line: text.slice(0, node.start).split('\n').length, source: pattern });
    },
  });
  visitor.visit(parseSync(file, text).program);
  return found;
}
