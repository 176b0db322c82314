def get_assert(output, context):
    return {"pass": output == "4", "score": 0.75, "reason": "It is " + context["vars"]["name"]}
